#!/bin/sh
# The Helm chart: Helm's own lint, and for each file of values in its folder ci what it makes of it, against Kubernetes'
# schemas (kubeconform -strict). Then what must be refused is. The tools go below target/chart: helm and kubeconform by
# Go's module proxy, the schemas as kubernetes-validate of PyPI has them. KUBERNETES=VERSION, one that this has.
set -eu
cd "$(dirname "$0")/.."
chart=packaging/helm/watermaster
tools=$PWD/target/chart
kubernetes=${KUBERNETES:-1.34.0}
schemas=kubernetes-validate==1.37.0
helm=helm.sh/helm/v3/cmd/helm@v3.18.6
kubeconform=github.com/yannh/kubeconform/cmd/kubeconform@v0.7.0
mkdir -p "$tools"
if [ "$(cat "$tools/go" 2>/dev/null)" != "$helm $kubeconform" ]; then
    # It is in the go.mod of both.
    go version | python3 -c '
import re, sys
said = sys.stdin.read()
found = re.search(r"go(\d+)\.(\d+)", said)
if not found or (int(found[1]), int(found[2])) < (1, 24):
    sys.exit(f"chart: this is {said.strip()}; install Go 1.24 or later")
'
    for tool in "$helm" "$kubeconform"; do
        (cd "$tools" && GOBIN="$tools" GOFLAGS=-mod=mod go install "$tool")
    done
    echo "$helm $kubeconform" >"$tools/go"
fi
if [ "$(cat "$tools/python" 2>/dev/null)" != "$schemas" ]; then
    python3 -m venv "$tools/venv"
    "$tools/venv/bin/pip" install --quiet --disable-pip-version-check "$schemas"
    echo "$schemas" >"$tools/python"
fi
# Its schemas refer to one another by an address of the web: here each has all that it refers to.
"$tools/venv/bin/python" - "$tools/schemas" "$kubernetes" <<'PYTHON'
import json, shutil, sys
from importlib import resources
from pathlib import Path

to, version = Path(sys.argv[1]), sys.argv[2]
found = resources.files("kubernetes_validate") / f"kubernetes-json-schema/v{version}-local-strict/_definitions.json"
definitions = json.loads(found.read_text())["$defs"]
shutil.rmtree(to, ignore_errors=True)
to.mkdir()
# Only what the chart makes: each file is large.
kinds = "ClusterRole ClusterRoleBinding ConfigMap DaemonSet NetworkPolicy PodDisruptionBudget Role RoleBinding Service ServiceAccount StatefulSet".split()
for name, definition in definitions.items():
    for of in definition.get("x-kubernetes-group-version-kind", []):
        if of["kind"] in kinds:
            group = [of["group"].split(".")[0]] if of["group"] else []
            file = "-".join([of["kind"], *group, of["version"]]).lower()
            schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": f"#/$defs/{name}",
                      "$defs": definitions}
            (to / f"{file}.json").write_text(json.dumps(schema))
PYTHON
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
grep -qx "appVersion: \"$version\"" "$chart/Chart.yaml" || {
    echo "chart: Chart.yaml is not of version $version, which Cargo.toml has" >&2
    exit 1
}
for values in "$chart"/ci/*.yaml; do
    "$tools/helm" lint --strict --quiet "$chart" --kube-version "$kubernetes" --values "$values"
    made=$tools/$(basename "$values")
    "$tools/helm" template try "$chart" --namespace net --kube-version "$kubernetes" --values "$values" >"$made"
    # A PodMonitor is no kind of Kubernetes' own.
    "$tools/kubeconform" -strict -summary -skip PodMonitor -kubernetes-version "$kubernetes" \
        -schema-location "$tools/schemas/{{ .ResourceKind }}{{ .KindSuffix }}.json" "$made"
done
echo "chart: PodMonitor was not compared: its schema is not of Kubernetes"

# What the daemons are told is TOML, and capabilities are those of the agent's unit or fewer.
"$tools/venv/bin/python" - "$tools" packaging/watermaster-agent.service <<'PYTHON'
import re, sys
from pathlib import Path
import yaml
try:
    import tomllib
except ImportError: # before Python 3.11
    tomllib = None

tools, unit = sys.argv[1:]
allowed = set(re.search(r"^CapabilityBoundingSet=(.*)$", Path(unit).read_text(), re.M)[1].split())
seen = 0
for made in ("one", "several", "lease", "agents"):
    for thing in filter(None, yaml.safe_load_all(Path(tools, f"{made}.yaml").read_text())):
        for name, text in (thing.get("data") or {}).items():
            if name.endswith(".toml") and tomllib:
                seen += bool(tomllib.loads(text))
        pod = thing.get("spec", {}).get("template", {}).get("spec", {})
        for container in pod.get("containers", []):
            given = container["securityContext"]
            assert given["readOnlyRootFilesystem"] and not given.get("privileged"), container["name"]
            assert given["capabilities"]["drop"] == ["ALL"], container["name"]
            more = {f"CAP_{name}" for name in given["capabilities"].get("add", [])} - allowed
            assert not more, f"{container['name']} has {more}, which the unit has not"
assert seen or not tomllib, "no configuration is made"
print(f"chart: {seen} configurations are TOML; no capability is beyond the agent's unit")
PYTHON

# What docs/kubernetes.md says that a change restarts, which is where a template of pods has changed.
"$tools/venv/bin/python" - "$tools/helm" "$chart" "$kubernetes" <<'PYTHON'
import copy, json, subprocess, sys
import yaml

helm, chart, kubernetes = sys.argv[1:]
CONFIG = """
mss = 8960
[control]
  lease = "10 s"
  sample = "1 s"
[policy]
name = "smsf"
[policy.extra]
beta = 0.1
[topology]
kind = "custom"
[[host]]
name = "node-1"
agent = "node-1"
addresses = ["192.0.2.1"]
[limits]
hosts = 5
[[tenant]]
application = "a"
"""
VALUES = {"controller": {"config": CONFIG, "replicas": 3}}


def templates(values):
    asked = [helm, "template", "try", chart, "--kube-version", kubernetes, "--values", "-"]
    made = subprocess.run(asked, input=json.dumps(values), capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    things = [thing for thing in yaml.safe_load_all(made.stdout) if thing]
    names = {"StatefulSet": "controllers", "DaemonSet": "agents"}
    return {names[thing["kind"]]: thing["spec"]["template"] for thing in things if thing["kind"] in names}


before = templates(VALUES)


def restarts(wanted, change, **values):
    """Those that a change of the configuration, or of values, restarts are the wanted ones."""
    new = copy.deepcopy(VALUES)
    for old, text in change.items():
        assert CONFIG.count(old) == 1, old
        new["controller"]["config"] = new["controller"]["config"].replace(old, text)
    for name, value in values.items():
        new.setdefault(name, {}).update(value)
    after = templates(new)
    found = {name for name in before if before[name] != after[name]}
    assert found == set(wanted), f"{change} {values} restarts {found}"


controllers, agents = ["controllers"], ["agents"]
for old, text in [
    ('"smsf"', '"sff"'), ("beta = 0.1", "beta = 0.2"), ("hosts = 5", "hosts = 6\nflows = 7"),
    ("[[tenant]]", '[[tenant]]\napplication = "b"\n[[tenant]]'), ('lease = "10 s"', 'lease = "20 s"'),
    ('  lease = "10 s"\n', ""), ('agent = "node-1"', 'agent = "other"'), ('agent = "node-1"\n', ""), ("[limits]\n", "\n\n[limits]\n"),
]:
    restarts([], {old: text})
for old, text in [
    ("mss = 8960", "mss = 1460"), ('sample = "1 s"', 'sample = "2 s"'), ('"custom"', '"star"'), ("192.0.2.1", "192.0.2.2"),
    ("[[host]]", '[[host]]\nname = "node-2"\n[[host]]'), ("[limits]", '[recorder]\ndirectory = "/r"\n[limits]'),
]:
    restarts(controllers, {old: text})
restarts([], {}, controller={"tls": {"crl": True}})
restarts([], {}, controller={"service": {"annotations": {"a": "b"}}}, networkPolicy={"enabled": True})
restarts([], {}, agent={"maxUnavailable": 2})
restarts(controllers, {}, controller={"listen": "[::]"})
restarts(controllers, {}, election={"lease": "7 s"})
restarts(controllers, {}, controller={"resources": {"limits": {"memory": "3Gi"}}})
restarts(agents, {}, controller={"replicas": 4})
restarts(agents, {}, agent={"nodes": {"node-1": "[[host]]"}})
restarts(agents, {}, agent={"config": "limits = 5"})
restarts(controllers + agents, {}, log={"format": "text"})
restarts(controllers + agents, {}, image={"tag": "other"})
print("chart: changes restart what they must, and nothing else")
PYTHON

refused() { # WORDS, then what helm template is told
    words=$1
    shift
    if said=$("$tools/helm" template try "$chart" --kube-version "$kubernetes" "$@" 2>&1 >/dev/null); then
        echo "chart: taken, where it should say $words: $*" >&2
        exit 1
    fi
    case $said in
    *"$words"*) ;;
    *) echo "chart: refused, and does not say $words: $said" >&2 && exit 1 ;;
    esac
}
refused "election.tls.secret" --set controller.replicas=3 --set election.tls.secret=etcd-client
refused "election.tls.secret" --set "election.etcd={https://192.0.2.1:2379}"
refused "controller.config" --set-string 'controller.config=[tls]'
refused "controller.config" --set-string 'controller.config=state = "/tmp"'
refused "agent.config" --set-string 'agent.config=name = "a"'
refused "agent.config" --set-string 'agent.config=kubernetes.node = "a"'
refused "agent.controllers" --set controller.enabled=false
refused "agent.tls" --set agent.tls.secret=
refused "replica" --set controller.replica=2
echo "chart: well"
