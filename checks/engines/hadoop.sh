# shellcheck shell=sh disable=SC2154
# Hadoop's sorts. For checks/engines.sh two at once: the controller knows their sizes, flows and connections, and the
# agent holds them to rates. For figures two that compete, whose tasks have their places.
starting="DataNodes,"
hadoop() {
    at h0 hadoop "$@"
}
# JOB of a client's log, once it has one
job() {
    sed -n 's/.*Running job: \(job_[0-9_]*\).*/\1/p' "$1"
}
# Of a job's tasks that ask for the same seat no two share a worker: maps that make a sort's records, and so those that
# read them; and its reduces. Otherwise the scheduler places two behind one port at times, which then decides.
# SORT
seat() {
    [ "$1" = large ] && echo seat-1 || echo seat-2
}
# RECORDS SORT: a part of one block at each worker
generate() {
    hadoop jar examples teragen -Ddfs.blocksize=32m "-Dmapreduce.map.resource.$(seat "$2")=1" "$1" "/$2" \
        >"$work/$2" 2>&1 || fail "teragen has failed: $(tail -n 20 "$work/$2")"
}
# What sorts sorts
prepare() {
    generate 600000 large &
    large=$!
    generate 300000 small
    wait $large
}
# RUN SORT
terasort() {
    hadoop jar examples terasort -Dmapreduce.terasort.partitions.sample=3000 \
        "-Dmapreduce.reduce.resource.$(seat "$2")=1" "/$2" "/$2-$1" >"$work/$1-$2" 2>&1
}
# RUN: a sort of 60 MB and, 1 s later, one of 30 MB
sorts() {
    terasort "$1" large &
    large=$!
    sleep 1
    terasort "$1" small &
    small=$!
    wait $large || fail "a sort has failed: $(tail -n 20 "$work/$1-large")"
    wait $small || fail "a sort has failed: $(tail -n 20 "$work/$1-small")"
    spread "$1-large"
    spread "$1-small"
}
# RUN-SORT: each worker had a map and a reduce of it
spread() {
    of=$(job "$work/$1")
    for host in ${workers:-h1 h2 h3}; do
        for kind in m r; do
            tasks=$(grep -rhE "Task 'attempt${of#job}_${kind}_[0-9]+_[0-9]+' done" --include=syslog \
                "$folder/engine/logs/$host-containers" | wc -l)
            [ "$tasks" = 1 ] || fail "$1: $host had $tasks tasks of the kind $kind, where one is meant"
        done
    done
}
# RUN-SORT: seconds from its start to its end, as the resource manager knows them
jct() {
    of=$(job "$work/$1")
    at h0 python3 -c '
import json, sys, urllib.request
with urllib.request.urlopen("http://h0:8088/ws/v1/cluster/apps/" + sys.argv[1]) as answer:
    app = json.load(answer)["app"]
print((app["finishedTime"] - app["startedTime"]) / 1000)' "application${of#job}"
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
