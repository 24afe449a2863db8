#!/bin/sh
# What the plug-ins' own threads take of the processors: scenarios/engines/threads.sh [SCENARIO…], for each of storm,
# flink, sorts-hadoop and sorts-spark where none is named. Each runs twice in the lab under tcp: with a controller that
# holds nothing, and with one that is killed after 1 s and doesn't come back. Prints a line of JSON for each run; fails
# where a program that lived 5 s or more gave its plug-in more than a hundredth of a processor. What a plug-in does in
# threads of the engine isn't counted. Needs root and Java.
set -eu
cd "$(dirname "$0")/../.."
watermaster=${WATERMASTER:-target/quick/watermaster}
[ $# != 0 ] || set -- storm flink sorts-hadoop sorts-spark
for scenario in "$@"; do
    for setup in idle dead; do
        faults=
        [ $setup = idle ] || faults=', faults = [{ kill = "controller", at = "1 s" }]'
        printf '%s, %s: ' "$scenario" "$setup"
        scenarios/engines/threads.py "$watermaster" run "scenarios/engines/$scenario.toml" \
            --set "policy=[{ name = \"tcp\"$faults }]" --set "published=[]" --set "baseline=tcp"
    done
done
