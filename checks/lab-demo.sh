#!/bin/sh
# The whole thing on one machine: two racks of Open vSwitch with six hosts, the controller's and the agent's daemon, two
# shuffles over the kernel's TCP, under smsf alone and looked at, then left alone and under smsf beside what the simulator
# says of the same file. It fails unless a link carries a limit that is enforced as it is meant, and every declaration is
# taken; what times come to is shown, and not judged: the machine may be busy.
# Needs root; under sudo, the user's own toolchain builds.
set -eu
cd "$(dirname "$0")/.."
if [ "$(id -u)" != 0 ]; then
    echo "lab-demo: skipped: network namespaces and BPF need root; run sudo make lab-demo"
    exit
fi
user=${SUDO_USER:-root}
PATH=$PATH:$(getent passwd "$user" | cut -d: -f6)/.cargo/bin
export PATH
checks/setup.sh build lab python
# shellcheck disable=SC2086
${SUDO_USER:+sudo -u "$user" -H env PATH="$PATH"} cargo build --profile quick --locked --package watermaster
watermaster=${CARGO_TARGET_DIR:-target}/quick/watermaster
scenario=scenarios/lab/two-shuffles-ovs.toml
name=demo$$
said=$(mktemp -d)
run=
trap '[ -z "$run" ] || kill "$run" 2>/dev/null || true; "$watermaster" lab down "$name" >/dev/null 2>&1 || true; rm -rf "$said"' EXIT
trap 'exit 1' INT TERM
status() { # OPTIONS
    "$watermaster" status --controller "unix:/run/watermaster/lab/$name/controller.sock" "$@"
}
is_governed() { # of what status --json said
    python3 -c '
import json, sys
links = [link for link in json.load(sys.stdin)["links"] if link["limited_bps"]]
sys.exit(not links or any(link["enforced_bps"] != link["limited_bps"] for link in links))'
}
begin=$(date +%s)

echo "The cluster: $scenario"
echo "(a fifth of the rates of two-shuffles.toml: Open vSwitch's user-space datapath carries no more)"
"$watermaster" lab up "$scenario" --name "$name"
echo
status >"$said/idle"
sed '/^link/,$d' "$said/idle"
echo "The two shuffles under smsf:"
"$watermaster" lab run "$name" --policy smsf >"$said/run" &
run=$!
governed=
while [ -z "$governed" ] && kill -0 "$run" 2>/dev/null; do
    # The run begins with a controller of its own: until it is up, nobody answers.
    if status --json >"$said/json" 2>/dev/null && is_governed <"$said/json"; then
        governed=yes
        status >"$said/governed"
        sed -n '/^link/,/^$/p' "$said/governed"
    fi
    sleep 0.2
done
ended=0
wait "$run" || ended=$?
run=
cat "$said/run"
[ "$ended" -eq 0 ] || exit "$ended"
if [ -z "$governed" ]; then
    echo "lab-demo: while smsf ran no link carried a limit that was enforced as it was meant; the last that was said:" >&2
    cat "$said/json" >&2
    exit 1
fi
"$watermaster" lab down "$name"
echo
echo "Two shuffles, simulated and live (pacing), each policy in a cluster of its own:"
"$watermaster" lab compare "$scenario" --policy tcp,smsf >"$said/compare"
cat "$said/compare"
if grep "NOT TAKEN" "$said/run" "$said/compare" >&2; then
    echo "lab-demo: the controller refused what its own lab declared" >&2
    exit 1
fi
"$watermaster" lab list
echo "lab-demo: $(($(date +%s) - begin)) s"
