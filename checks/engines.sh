#!/bin/sh
# Real engines in a lab, under controller and agent: each comes up by one command and does what its script in
# checks/engines says, and nothing is left of it, nor of a start that is killed. checks/engines.sh [ENGINE…]
# Needs root and Java.
set -eu
cd "$(dirname "$0")/.."
[ $# != 0 ] || set -- flink hadoop spark storm
for engine in "$@"; do
    [ -f "checks/engines/$engine.sh" ] || {
        echo "engines: there is no $engine; name flink, hadoop, spark or storm, or none for all" >&2
        exit 2
    }
done
# shellcheck source=checks/engines-lab.sh
. checks/engines-lab.sh

# FILE…, of what explain said again and again
rates() {
    grep -h "enforced [0-9]" "$@" | sort | uniq -c | sort -rn | head -n 5 >"$work/held"
    [ -s "$work/held" ] || fail "no flow was held to a rate"
    echo "engines: rates that flows were held to, as often as they were seen:"
    cat "$work/held"
}
# Slow links, so that what crosses them takes seconds.
slow="topology.access.capacity=3 Mbit/s"

for engine in "$@"; do
    begin=$(date +%s)
    # What up tells while daemons start, and `try`, which fails where something is wrong. What is `short` stands for the
    # application of the engine's scenario.
    short=
    # shellcheck source=/dev/null
    . "checks/engines/$engine.sh"
    echo "engines: $engine"
    up --set "$slow"
    try
    "$WATERMASTER" lab down "$name"
    gone
    echo "engines: a start of $engine that is killed"
    # As `up`, but without a shell between, which would be killed in its place.
    (exec "$WATERMASTER" lab up "scenarios/engines/$engine.toml" --engine "$engine" --name "$name" --set "$slow") \
        >"$work/up" 2>&1 &
    killed=$!
    until grep -q "$starting" "$work/up"; do
        kill -0 $killed 2>/dev/null || fail "up has failed: $(cat "$work/up")"
        sleep 0.1
    done
    kill -9 $killed
    wait $killed || true
    ! grep -q fetching "$work/up" || fail "what was fetched was fetched again"
    "$WATERMASTER" lab down "$name"
    gone
    if [ -n "$short" ]; then
        echo "engines: the scenario of $engine, shortened"
        "$WATERMASTER" run "scenarios/engines/$engine.toml" --policy app-aware --set "$slow" \
            --set "engine.application.trucking.run=$short" --json >"$work/run.json"
        python3 -c '
import json, sys
with open(sys.argv[1]) as run:
    [result] = json.load(run)["results"]
wanted = "throughput_tps", "latency_p99_s", "processors_s"
sys.exit(not all(result["metrics"].get(metric, 0) > 0 for metric in wanted))' "$work/run.json" ||
            fail "the scenario has measured nothing: $(cat "$work/run.json")"
    fi
    echo "engines: $engine: $(($(date +%s) - begin)) s"
done
