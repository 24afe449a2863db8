#!/bin/sh
# What policies gain for real engines: Storm runs Trucking IoT under tcp and app-aware, Hadoop two sorts that compete
# under tcp and smsf, in a lab under controller and agent. Each engine starts once; the controller reads its
# configuration again to change its policy, and tcp comes first. Tables set what the engines measured beside the
# simulator's values and the text's. Nothing is left at the end. Needs root and Java.
set -eu
cd "$(dirname "$0")/.."
begin=$(date +%s)
# shellcheck source=checks/engines-lab.sh
. checks/engines-lab.sh
# Seconds of a topology that are looked at, after as many that aren't, while its tasks begin.
window=25
# Links of the sorts: what both send through a port takes half a minute.
slow="topology.access.capacity=6 Mbit/s"

say() {
    echo "$me: $(($(date +%s) - begin)) s: $1"
}
# ENGINE ARGUMENTS: its functions, and a lab of it under tcp
start() {
    engine=$1
    shift
    # shellcheck source=/dev/null
    . "checks/engines/$engine.sh"
    "$WATERMASTER" run "scenarios/engines/$engine.toml" --json "$@" >"$work/$engine.json"
    up --policy tcp "$@" >"$work/up" || fail "$engine hasn't started"
}
# Tuples of the second window
measured() {
    [ -e "$results" ] && [ "$(wc -l <"$results")" -ge 2 ]
}
# POLICY
trucking() {
    results=$work/storm-$1
    say "Trucking IoT under $1: half a minute to start, then $window s that aren't looked at, and $window s that are"
    storm jar examples io.watermaster.examples.Trucking trucking every=$window results="$results" \
        >"$work/submit" 2>&1 ||
        fail "the topology was refused: $(tail -n 20 "$work/submit")"
    topology=$(storm list | grep -o 'trucking-[0-9]*-[0-9]*') || fail "the topology isn't listed"
    await "no tuples arrive" measured
    storm kill trucking -w 0 >"$work/kill" 2>&1 || fail "the topology can't be killed: $(cat "$work/kill")"
    await "the topology is still known" forgotten
}
echo "$me: 7 to 9 minutes, and up to 9 more where engines are fetched; nothing else should run meanwhile"
say "Storm starts, on links of 10 Mbit/s: half a minute"
start storm
trucking tcp
change app-aware
trucking app-aware
"$WATERMASTER" lab down "$name"
gone
say "Hadoop starts, on links of 6 Mbit/s, and makes what it will sort: a minute"
start hadoop --set "$slow"
prepare
for policy in tcp smsf; do
    change "$policy"
    say "sorts of 60 MB and, 1 s later, of 30 MB under $policy: a minute"
    sorts "$policy"
    for sort in large small; do
        jct "$policy-$sort" >"$work/hadoop-$policy-$sort"
    done
done
"$WATERMASTER" lab down "$name"
gone
checks/engines_table.py "$work"
say "done"
