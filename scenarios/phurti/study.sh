#!/bin/sh
# The tables of docs/phurti.md, as Markdown's preformatted text on standard output.
#
#   scenarios/phurti/study.sh TRACE
#
# TRACE is the SWIM file FB-2009_samples_24_times_1hr_0.tsv. WATERMASTER names the binary.
set -eu

trace=${1:?usage: scenarios/phurti/study.sh TRACE}
watermaster=${WATERMASTER:-watermaster}
cd "$(dirname "$0")/../.."
main=scenarios/phurti/facebook-100-jobs.toml
samples=workload.trace.sample=0,1,2,3,4,5,6,7
two_transfers='[{ from = "h4", to = "h1", size = "312.5 MB" }, { from = "h3", to = "h5", size = "500 MB" }]'
seeds=seed=1,2,3,4,5,6,7,8
few=seed=1,2,3,4

table() {
    printf '### %s\n\n' "$1"
    shift
    printf '```\n'
    "$watermaster" "$@"
    printf '```\n\n'
}

sweep() {
    title=$1
    shift
    table "$title" sweep "$main" "$@"
}

for scenario in figure-2-2 figure-2-3 two-terasorts; do
    table "$scenario" run "scenarios/phurti/$scenario.toml" --out "out/phurti/$scenario"
done
table 'two-terasorts without the transfer to h4' run scenarios/phurti/two-terasorts.toml \
    --out out/phurti/two-terasorts-two-transfers --set "workload.job.0.flow=$two_transfers"
table 'two-terasorts, ten arrivals of the small job' sweep scenarios/phurti/two-terasorts.toml \
    --over 'workload.job.1.arrival=1.0 s,1.1 s,1.2 s,1.3 s,1.4 s,1.5 s,1.6 s,1.7 s,1.8 s,1.9 s'

sweep 'Trace, by load' --trace "$trace" --policy smsf \
    --vary workload.load=0.5,0.7,0.9 --over "$samples"
# A workload table without a load leaves the arrivals as the trace has them.
sweep 'Trace, by sample, with its own arrival times' --trace "$trace" --policy smsf \
    --set 'workload={ kind = "shuffle", jobs = 100, mean_bytes = "150 MB", mean_gap = "1 s" }' \
    --set 'measures=["link_utilization_max_ratio", "jct_mean_change_ratio", "jobs_improved_ratio"]' \
    --vary "$samples"
sweep 'Generator, by load' --policy smsf --vary workload.load=0.5,0.7,0.9,3 --over "$seeds"
sweep 'Generator, under tcp' --policy tcp --vary workload.load=0.7,3 --over "$seeds"
sweep 'Generator, all policies' --over "$seeds"
sweep 'Generator, by tasks per job' --policy smsf --over "$few" \
    --vary 'workload.tasks.block=1 MB,64 MiB,1 TB'
sweep 'Generator, by beta' --policy smsf --over "$few" --vary policy.smsf.beta=0.001,0.01,0.05
sweep 'Generator, by threshold of the guard' --policy smsf --over "$few" \
    --vary 'policy.smsf.threshold=20 s,100 s,1000000 s'
sweep 'Generator, by shortest retransmission timeout' --policy smsf --over "$few" \
    --vary 'transport.min_rto=10 ms,200 ms'
sweep 'Generator, by buffer between the racks' --policy smsf --over "$few" \
    --vary 'topology.core.buffer=100 packets,2000 packets'
sweep 'Generator, by beta with 2000 packets of buffer between the racks' --policy smsf --over "$few" \
    --set 'topology.core.buffer=2000 packets' --vary policy.smsf.beta=0.01,0.2,0.5
