#!/bin/sh
# What a plug-in costs where no link is short: scenarios/engines/cost.sh [REPEATS [SEED [RECORDS]]]. Spark sorts so many
# records of 100 octets (1500000) at 100 Mbit/s without the plug-in, with it under a controller whose policy is tcp, and
# with it where no controller is. Each repeat (7) runs all three, in an order that the seed (1) decides; all must have
# the same result. The table has the time of the sort and what all of Spark's processes took of the processors, with
# half of their 95 % intervals. A line of JSON for each run is appended to out/engines/cost-spark.jsonl. Needs root and
# Java, and a machine that does nothing else.
set -eu
cd "$(dirname "$0")/../.."
repeats=${1:-7}
seed=${2:-1}
records=${3:-1500000}
case $repeats,$seed,$records in
*[!0-9,]* | ,* | *,,* | *,)
    echo "usage: scenarios/engines/cost.sh [REPEATS [SEED [RECORDS]]]" >&2
    exit 2
    ;;
esac
# shellcheck source=checks/engines-lab.sh
. checks/engines-lab.sh
# shellcheck disable=SC2034
engine=spark
# shellcheck source=checks/engines/spark.sh
. checks/engines/spark.sh
results=out/engines/cost-spark.jsonl
mkdir -p out/engines
rm -f "$results"

# Microseconds that the engine's processes have taken of the processors.
taken() {
    # shellcheck disable=SC2154
    cat $(find /sys/fs/cgroup -path "*/watermaster-$name-*/traffic/cpu.stat") | sed -n 's/^usage_usec //p'
}
# RUN SETUP SEED
sort_once() {
    case $2 in
    without) set -- "$1" "$3" --conf spark.shuffle.manager=sort --conf spark.plugins= ;;
    dead) set -- "$1" "$3" --conf spark.watermaster.controller=unix:/nobody/listens ;;
    idle) set -- "$1" "$3" ;;
    esac
    out=$work/$1
    seed_of=$2
    shift 2
    at h0 spark-submit --class io.watermaster.examples.TeraSort "$@" examples records="$records" seed="$seed_of" \
        >"$out" 2>"$out.log" || fail "a sort has failed: $(tail -n 20 "$out.log")"
}

up --policy tcp >"$work/up" || fail "spark hasn't started"
# The first reads classes from the disk.
sort_once warm idle 1
repeat=1
while [ "$repeat" -le "$repeats" ]; do
    for setup in $(python3 -c 'import random, sys; print(*random.Random(sys.argv[1]).sample(sys.argv[2:], 3))' \
        "$seed-$repeat" without idle dead); do
        echo "$me: repeat $repeat of $repeats, $setup"
        before=$(taken)
        sort_once "$setup-$repeat" "$setup" "$((1000 * seed + repeat))"
        printf '{"repeat": %d, "setup": "%s", "jct_s": %s, "processor_s": %s}\n' "$repeat" "$setup" \
            "$(jct "$setup-$repeat")" "$(python3 -c "print(($(taken) - $before) / 1e6)")" | tee -a "$results"
    done
    for setup in idle dead; do
        [ "$(same "$work/$setup-$repeat")" = "$(same "$work/without-$repeat")" ] ||
            fail "$setup: another result than without: $(cat "$work/$setup-$repeat" "$work/without-$repeat")"
    done
    repeat=$((repeat + 1))
done
"$WATERMASTER" lab down "$name"
gone
checks/engines_cost.py "$results"
