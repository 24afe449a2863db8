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
# POLICY, in the place of tcp
change() {
    sed -i "/^\[policy\]/,/^\[control\]/s/\"tcp\"/\"$1\"/" "$folder/controller.toml"
    xargs -a "$(find /sys/fs/cgroup -path "*/watermaster-$name-*/controller/cgroup.procs")" kill -HUP
    last=$(($(date +%s) + 30))
    until "$WATERMASTER" status --controller "unix:$folder/controller.sock" | grep -q "policy $1"; do
        [ "$(date +%s)" -lt $last ] || fail "the policy is still tcp: $(tail -n 20 "$folder/controller.out")"
        sleep 0.1
    done
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
# Of a job's tasks that ask for the same seat no two share a worker: maps that make a sort's records, and so those that
# read them; and its reduces. Otherwise the scheduler places two behind one port at times, which then decides.
# SORT
seat() {
    [ "$1" = large ] && echo seat-1 || echo seat-2
}
# RECORDS SORT: a part of one block at each worker
generate() {
    hadoop jar examples teragen -Ddfs.blocksize=32m -Dmapreduce.job.maps=3 \
        "-Dmapreduce.map.resource.$(seat "$2")=1" "$1" "/$2" >"$work/$2" 2>&1 ||
        fail "teragen has failed: $(tail -n 20 "$work/$2")"
}
# POLICY SORT
terasort() {
    hadoop jar examples terasort -Dmapreduce.terasort.partitions.sample=3000 \
        "-Dmapreduce.reduce.resource.$(seat "$2")=1" "/$2" "/$2-$1" >"$work/$1-$2" 2>&1
}
# KIND LOG: each worker had one task of the kind of the log's job
spread() {
    of=$(job "$work/$2")
    for host in h1 h2 h3; do
        tasks=$(grep -rlE "attempt${of#job}_$1_[0-9]+_0" --include=syslog \
            "$folder/engine/logs/$host-containers/application${of#job}" | wc -l)
        [ "$tasks" = 1 ] || fail "$2: $host had $tasks tasks of the kind $1"
    done
}
# POLICY
sorts() {
    say "sorts of 60 MB and, 1 s later, of 30 MB under $1: some 80 s"
    terasort "$1" large &
    large=$!
    sleep 1
    terasort "$1" small &
    small=$!
    wait $large || fail "a sort has failed: $(tail -n 20 "$work/$1-large")"
    wait $small || fail "a sort has failed: $(tail -n 20 "$work/$1-small")"
}
# Start and end of each sort, as the resource manager knows them
finished() {
    for log in tcp-large tcp-small smsf-large smsf-small; do
        of=$(job "$work/$log")
        at h0 yarn application -status "application${of#job}" >"$work/hadoop-$log" 2>/dev/null &
    done
    wait
}

echo "$me: 6 to 8 minutes, and up to 9 more where engines are fetched; nothing else should run meanwhile"
say "Storm starts, on links of 10 Mbit/s: half a minute"
start storm
trucking tcp
change app-aware
trucking app-aware
"$WATERMASTER" lab down "$name"
gone
say "Hadoop starts, on links of 6 Mbit/s, and makes what it will sort: a minute"
start hadoop --set "$slow"
generate 600000 large &
large=$!
generate 300000 small
wait $large
sorts tcp
change smsf
sorts smsf
finished
"$WATERMASTER" lab down "$name"
gone
checks/engines_table.py "$work"
say "done"
