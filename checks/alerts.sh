#!/bin/sh
# The alert rules by their own tests, with Debian's promtool. It is taken out of its package and not installed: that
# would start a server.
set -eu
cd "$(dirname "$0")/.."
tool=$PWD/target/promtool
if [ ! -x "$tool/usr/bin/promtool" ]; then
    mkdir -p "$tool"
    (cd "$tool" && apt-get download -qq -o APT::Sandbox::User=root prometheus)
    dpkg-deb --extract "$tool"/prometheus_*.deb "$tool"
    rm -f "$tool"/prometheus_*.deb
fi
"$tool/usr/bin/promtool" check rules packaging/prometheus/watermaster.rules.yaml
"$tool/usr/bin/promtool" test rules packaging/prometheus/watermaster.tests.yaml
python3 - <<'PYTHON'
import re
rules = open("packaging/prometheus/watermaster.rules.yaml").read()
alerts = re.findall(r"alert: (\w+)", rules)
told = re.findall(r"^### (\w+)$", open("docs/runbook.md").read(), re.M)
assert alerts == told, f"docs/runbook.md has other alerts than the rules, or in another order: {set(alerts) ^ set(told)}"
assert [a.lower() for a in alerts] == re.findall(r"runbook\.md#(\w+)", rules), "an alert points to another's section"
print(f"{len(alerts)} alerts, each in the runbook")
PYTHON
