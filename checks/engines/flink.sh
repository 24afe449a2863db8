# shellcheck shell=sh disable=SC2154
# Trucking IoT, for checks/engines.sh: the controller knows the job's streams and their connections, the agent holds
# them to rates, and tuples arrive.
starting=" of 6 TaskManagers"
flink() {
    at h0 flink "$@"
}
flows() {
    explain "flink/$job" >"$work/now"
    cat "$work/now" >>"$work/explained"
    # Each of two sources to three combiners, and these to the sink.
    [ "$(grep -c "^flow flink/$job/10\..*:612[12]-10\." "$work/now")" -ge 9 ] &&
        grep -q "enforced [0-9].* measured [0-9.]* [kM]bit/s" "$work/now"
}
# Half a minute of tuples
arrived() {
    explain "flink/$job" >>"$work/explained"
    [ -e "$work/results" ] && [ "$(grep -c '"tuples": [1-9]' "$work/results")" -ge 6 ]
}
forgotten() {
    explain "flink/$job" | grep -q "not known"
}
try() {
    echo "engines: Trucking IoT, three tenths of the text's links and tuples"
    : >"$work/explained"
    flink run -d -c io.watermaster.examples.Trucking examples trucking rate=75 results="$work/results" \
        >"$work/submit" 2>&1 || fail "the job was refused: $(cat "$work/submit")"
    job=$(sed -n 's/.*JobID \([0-9a-f]*\).*/\1/p' "$work/submit")
    [ -n "$job" ] || fail "the job has no name: $(cat "$work/submit")"
    await "streams are not declared, not found among the connections, or not held" flows
    at h1 ss -tinH src :6121 | grep -q cubic || fail "TaskManagers don't speak the scenario's TCP"
    await "no tuples arrive" arrived
    rates "$work/explained"
    echo "engines: results, as the job measures them:"
    cat "$work/results"
    flink cancel "$job" >"$work/cancel" 2>&1 || fail "the job can't be cancelled: $(cat "$work/cancel")"
    await "the job is still known" forgotten
}
