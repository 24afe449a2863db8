#!/bin/sh
# What plug-ins say that flows carry, against what the kernel says that their connections did:
# scenarios/engines/bytes.sh [SCENARIO [POLICY]], for each of storm, flink, sorts-hadoop and sorts-spark where none is
# named, under tcp. Each runs once in the lab, by a controller that records; bytes.py compares. Fails where the sums
# differ by more than 2 %, a pair of ends by more than 20 %, or where as much as the former is on one side alone. What a
# connection carries between its last sample and its end isn't seen: agents sample ten times a second. Needs root and
# Java.
set -eu
cd "$(dirname "$0")/../.."
watermaster=${WATERMASTER:-target/quick/watermaster}
policy=${2:-tcp}
record=$(mktemp -d)
trap 'rm -r "$record"' EXIT
for scenario in ${1:-storm flink sorts-hadoop sorts-spark}; do
    "$watermaster" run "scenarios/engines/$scenario.toml" --policy "$policy" --set "lab.record=$record/$scenario" \
        --set "lab.sample=100 ms" >"$record/table"
    "$watermaster" replay "$record/$scenario/$policy-"*/*.000.record --json >"$record/lines"
    echo "$scenario:"
    scenarios/engines/bytes.py "$record/lines"
done
