# shellcheck shell=sh disable=SC2154
# Trucking IoT, for storm.sh and flink.sh: the controller knows its streams and their connections, the agent holds them
# to rates, and tuples arrive. Each says how it is submitted (`submit`, which finds its `id`) and stopped (`stop`), how
# its streams are called (`streams`), and who sends at h1 (`sender`, for ss).
flows() {
    explain "$engine/$id" >"$work/now"
    cat "$work/now" >>"$work/explained"
    # Each of two sources to three combiners, and these to the sink.
    [ "$(grep -c "^flow $engine/$id/$streams" "$work/now")" -ge 9 ] &&
        grep -q "enforced [0-9].* measured [0-9.]* [kM]bit/s" "$work/now"
}
# Half a minute of tuples
arrived() {
    explain "$engine/$id" >>"$work/explained"
    [ -e "$work/results" ] && [ "$(grep -c '"tuples": [1-9]' "$work/results")" -ge 6 ]
}
forgotten() {
    explain "$engine/$id" | grep -q "not known"
}
try() {
    echo "engines: Trucking IoT, three tenths of the text's links and tuples"
    : >"$work/explained"
    submit trucking rate=75 results="$work/results"
    [ -n "$id" ] || fail "what was submitted isn't known: $(cat "$work/submit")"
    await "streams are not declared, not found among the connections, or not held" flows
    at h1 ss -tinH "$sender" | grep -q cubic || fail "$engine's workers don't speak the scenario's TCP"
    await "no tuples arrive" arrived
    rates "$work/explained"
    echo "engines: results, as they are measured there:"
    cat "$work/results"
    stop >"$work/stop" 2>&1 || fail "it can't be stopped: $(cat "$work/stop")"
    await "it is still known" forgotten
}
