# shellcheck shell=sh disable=SC2154
# Trucking IoT, for checks/engines.sh: the controller knows the topology's streams and their connections, the agent
# holds them to rates, and tuples arrive.
starting=" of 5 Supervisors"
storm() {
    at h0 storm "$@"
}
flows() {
    explain "storm/$topology" >"$work/now"
    cat "$work/now" >>"$work/explained"
    # Each of two sources to three combiners, and these to the sink.
    [ "$(grep -c "^flow storm/$topology/10\..* -> 10\..*:6700$" "$work/now")" -ge 9 ] &&
        grep -q "enforced [0-9].* measured [0-9.]* [kM]bit/s" "$work/now"
}
# Half a minute of tuples
arrived() {
    explain "storm/$topology" >>"$work/explained"
    [ -e "$work/results" ] && [ "$(grep -c '"tuples": [1-9]' "$work/results")" -ge 6 ]
}
forgotten() {
    explain "storm/$topology" | grep -q "not known"
}
try() {
    echo "engines: Trucking IoT, three tenths of the text's links and tuples"
    : >"$work/explained"
    storm jar examples io.watermaster.examples.Trucking trucking rate=75 results="$work/results" ||
        fail "the topology was refused"
    topology=$(storm list | grep -o 'trucking-[0-9]*-[0-9]*') || fail "the topology isn't listed"
    await "streams are not declared, not found among the connections, or not held" flows
    at h1 ss -tinH dst :6700 | grep -q cubic || fail "workers don't speak the scenario's TCP"
    await "no tuples arrive" arrived
    rates "$work/explained"
    echo "engines: results, as the topology measures them:"
    cat "$work/results"
    storm kill trucking -w 0 || fail "the topology can't be killed"
    await "the topology is still known" forgotten
}
