# shellcheck shell=sh disable=SC2034,SC2154
# Storm runs Trucking IoT.
# shellcheck source=checks/engines/trucking.sh
. checks/engines/trucking.sh
starting=" of 5 Supervisors"
# shellcheck disable=SC2016
short='storm jar examples io.watermaster.examples.Trucking trucking-$RUN rate=75 every=5 results=results.jsonl'
streams='10\..* -> 10\..*:6700$'
sender="dport = :6700"
storm() {
    at h0 storm "$@"
}
submit() {
    storm jar examples io.watermaster.examples.Trucking "$@" >"$work/submit" 2>&1 ||
        fail "the topology was refused: $(cat "$work/submit")"
    id=$(storm list | grep -o 'trucking-[0-9]*-[0-9]*')
}
stop() {
    storm kill trucking -w 0
}
