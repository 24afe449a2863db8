#!/bin/sh
# The tables of docs/sicc.md, on standard output. WATERMASTER names the binary.
set -eu

watermaster=${WATERMASTER:-watermaster}
cd "$(dirname "$0")/../.."
word=scenarios/sicc/at-its-word.toml
seeds=seed=1,2,3
rates='workload.overload.rate=2 Mbit/s,20 Mbit/s,50 Mbit/s,100 Mbit/s,200 Mbit/s,500 Mbit/s,1 Gbit/s'

sweep() {
    printf '### %s\n\n' "$1"
    shift
    "$watermaster" sweep "$@"
    printf '\n'
}

sweep 'By period' scenarios/sicc/period.toml --over "$seeds" \
    --vary 'workload.period=10 ms,5 ms,2 ms,1 ms,0.5 ms,0.2 ms,0.1 ms'
for known in false true; do
    for period in '10 ms' '1 ms'; do
        sweep "Half of the servers overloaded, known: $known, speeds set every $period" "$word" --over "$seeds" \
            --set workload.overload.known=$known --set "workload.period=$period" --vary "$rates"
    done
done
sweep '60 servers' "$word" --over "$seeds" --set topology.racks_per_router=1 --vary topology.racks=1
sweep '600, 3000, 30,000, 150,000 servers' "$word" --over "$seeds" --vary topology.racks=10,50,500,2500
