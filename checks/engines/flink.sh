# shellcheck shell=sh disable=SC2034,SC2154
# Flink runs Trucking IoT.
# shellcheck source=checks/engines/trucking.sh
. checks/engines/trucking.sh
starting=" of 6 TaskManagers"
# shellcheck disable=SC2016
short='flink run -d -c io.watermaster.examples.Trucking examples trucking-$RUN rate=75 every=5 results=results.jsonl'
streams='10\..*:612[12]-10\.'
sender="sport = :6121"
flink() {
    at h0 flink "$@"
}
submit() {
    flink run -d -c io.watermaster.examples.Trucking examples "$@" >"$work/submit" 2>&1 ||
        fail "the job was refused: $(cat "$work/submit")"
    id=$(sed -n 's/.*JobID \([0-9a-f]*\).*/\1/p' "$work/submit")
}
stop() {
    flink cancel "$id"
}
