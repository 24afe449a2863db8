#!/bin/sh
# Two sorts that compete on two racks, by real engines under each policy: scenarios/engines/sorts.sh ENGINE [REPEATS
# [SEED]], where ENGINE is hadoop or spark. Each repeat (5) runs every policy once, in an order that the seed (1)
# decides. The table has means with half of their 95 % intervals, beside the simulator's. A line of JSON for each run is
# appended to out/engines/sorts-ENGINE.jsonl. Needs root and Java, and a machine that does nothing else.
set -eu
cd "$(dirname "$0")/../.."
engine=${1-}
repeats=${2:-5}
seed=${3:-1}
case $engine,$repeats,$seed in
hadoop,*[!0-9]*,* | spark,*[!0-9]*,* | *,*,*[!0-9]*) engine= ;;
hadoop,*,* | spark,*,*) ;;
*) engine= ;;
esac
[ -n "$engine" ] || {
    echo "usage: scenarios/engines/sorts.sh hadoop|spark [REPEATS [SEED]]" >&2
    exit 2
}
# shellcheck source=checks/engines-lab.sh
. checks/engines-lab.sh
# shellcheck source=/dev/null
. "checks/engines/$engine.sh"
scenario=scenarios/engines/sorts.toml
policies="tcp fifo smsf srb"
# Of checks/engines/hadoop.sh.
# shellcheck disable=SC2034
workers="h1 h2 h3 h4 h5"
results=out/engines/sorts-$engine.jsonl
mkdir -p out/engines
rm -f "$results"

"$WATERMASTER" run $scenario --json >"$work/simulated.json"
up --policy tcp >"$work/up" || fail "$engine hasn't started"
prepare
repeat=1
while [ "$repeat" -le "$repeats" ]; do
    # shellcheck disable=SC2086
    order=$(python3 -c 'import random, sys; print(*random.Random(sys.argv[1]).sample(sys.argv[2:], len(sys.argv) - 2))' \
        "$seed-$repeat" $policies)
    for policy in $order; do
        case $policy in
        # As in the scenario.
        smsf) change smsf "beta = 0.05" ;;
        *) change "$policy" ;;
        esac
        echo "$me: $engine, repeat $repeat of $repeats, $policy"
        sorts "$policy-$repeat" "$((1000 * seed + repeat))"
        printf '{"repeat": %d, "policy": "%s", "large_s": %s, "small_s": %s}\n' "$repeat" "$policy" \
            "$(jct "$policy-$repeat-large")" "$(jct "$policy-$repeat-small")" | tee -a "$results"
    done
    repeat=$((repeat + 1))
done
"$WATERMASTER" lab down "$name"
gone
checks/engines_sorts.py "$results" "$work/simulated.json"
