#!/bin/sh
# What policies gain for real engines: Storm runs Trucking IoT under tcp and app-aware, then Hadoop two sorts that compete
# under tcp and smsf, in a lab under controller and agent; each beside the simulator's and the text's figures. Nothing is
# left at the end. Needs root and Java.
set -eu
cd "$(dirname "$0")/.."
begin=$(date +%s)
# shellcheck source=checks/engines-lab.sh
. checks/engines-lab.sh
say() {
    echo
    echo "$me: $(($(date +%s) - begin)) s: $1"
}
# FILE POLICIES WHAT: in the simulator, then by the engine
both() {
    say "$3 in the simulator"
    "$WATERMASTER" run "scenarios/engines/$1.toml" --world packet --policy "$2" --out "$work/out"
    say "$3 in the lab"
    "$WATERMASTER" run "scenarios/engines/$1.toml" --policy "$2" --out "$work/out"
}
echo "$me: minutes, and more where engines are fetched; nothing else should run meanwhile"
both storm tcp,app-aware "Trucking IoT on Storm"
both sorts-hadoop tcp,smsf "two sorts on Hadoop"
say "done"
