# shellcheck shell=sh disable=SC2154
# Two sorts of Hadoop at once, for checks/engines.sh: the controller knows their sizes, flows and connections, and the
# agent holds them to rates.
starting="DataNodes,"
hadoop() {
    at h0 hadoop "$@"
}
# JOB of a client's log, once it has one
job() {
    sed -n 's/.*Running job: \(job_[0-9_]*\).*/\1/p' "$1"
}
try() {
    echo "engines: two sorts of 30 MB at once"
    # A sort first reads so many records, which slow links would make long.
    few=-Dmapreduce.terasort.partitions.sample=3000
    hadoop jar examples teragen 300000 /in >"$work/teragen" 2>&1 ||
        fail "teragen has failed: $(tail -n 20 "$work/teragen")"
    hadoop jar examples terasort "$few" /in /first >"$work/first" 2>&1 &
    first=$!
    hadoop jar examples terasort "$few" /in /second >"$work/second" 2>&1 &
    second=$!
    while kill -0 $first 2>/dev/null || kill -0 $second 2>/dev/null; do
        for sort in first second; do
            of=$(job "$work/$sort")
            [ -z "$of" ] || explain "mapreduce/$of" >>"$work/$sort.explained"
        done
        sleep 0.3
    done
    for sort in first second; do
        wait "$([ $sort = first ] && echo $first || echo $second)" ||
            fail "a sort has failed: $(tail -n 20 "$work/$sort")"
        of=$(job "$work/$sort")
        echo "engines: $of"
        # 300,000 records of 100 octets, each with a length before its key and its value.
        grep -q "^mapreduce/$of: 312[0-9]* bytes declared" "$work/$sort.explained" ||
            fail "$of: sizes were not declared"
        grep -q "^flow mapreduce/$of/m_" "$work/$sort.explained" || fail "$of: no fetch was declared"
        grep -q "^  over 10\..*:13562 -> 10\." "$work/$sort.explained" ||
            fail "$of: no fetch was found among the connections"
        explain "mapreduce/$of" | grep -q "not known" || fail "$of is still known"
    done
    rates "$work"/*.explained
    hadoop fs -cat /second/_SUCCESS >/dev/null 2>&1 || fail "the second sort left no result"
}
