# shellcheck shell=sh disable=SC2154
# Spark's applications. For checks/engines.sh a sort and a count of words at once: the controller knows their shuffles'
# sizes, flows and connections, the agent holds them to rates, and the results are those of the same programs in one
# process.
starting=" of 3 Workers"
# CLASS ARGUMENTS, of an application of io.watermaster.examples
application() {
    class=io.watermaster.examples.$1
    shift
    at h0 spark-submit --class "$class" "$@"
}
# Until LOG says that an application is ready, which runs as PID: its name
ready() {
    until grep -qs "is ready$" "$1"; do
        kill -0 "$2" 2>/dev/null || fail "an application has failed: $(tail -n 20 "$1")"
        sleep 0.1
    done
    sed -n 's/.*: \(.*\) is ready$/\1/p' "$1"
}
# RUN-SORT: seconds from the start of its maps to the end of its reduces
jct() {
    sed -n 's/.*"jct_s": \([0-9.]*\).*/\1/p' "$work/$1"
}
# RESULT…, of what applications print: without times and names
same() {
    sed 's/.*"jct_s": [0-9.]*, //' "$@"
}
try() {
    echo "engines: a sort of 20 MB and a count of 3 million words at once"
    application TeraSort examples records=200000 gate="$work/gate" >"$work/sort" 2>"$work/sort.log" &
    sort=$!
    application WordCount examples gate="$work/gate" >"$work/count" 2>"$work/count.log" &
    count=$!
    sorts=$(ready "$work/sort.log" $sort)
    counts=$(ready "$work/count.log" $count)
    touch "$work/gate"
    while kill -0 $sort 2>/dev/null || kill -0 $count 2>/dev/null; do
        explain "spark/$sorts-shuffle-0" >>"$work/sort.explained"
        explain "spark/$counts-shuffle-0" >>"$work/count.explained"
        sleep 0.3
    done
    wait $sort || fail "the sort has failed: $(tail -n 20 "$work/sort.log")"
    wait $count || fail "the count has failed: $(tail -n 20 "$work/count.log")"
    # 200,000 records of 100 octets, each with 6 that Spark writes with a key and a value.
    grep -q "^spark/$sorts-shuffle-0: 21[0-9]* bytes declared" "$work/sort.explained" ||
        fail "the sort's sizes were not declared: $(grep -m 1 declared "$work/sort.explained" || tail -n 5 "$work/sort.explained")"
    grep -q "^spark/$counts-shuffle-0: [1-9][0-9]* bytes declared" "$work/count.explained" ||
        fail "the count's sizes were not declared"
    for job in sort count; do
        grep -q "^flow spark/.*/executor_" "$work/$job.explained" || fail "$job: no fetch was declared"
        grep -q "^  over 10\..* -> 10\..*" "$work/$job.explained" ||
            fail "$job: no fetch was found among the connections"
    done
    for of in "$sorts" "$counts"; do
        explain "spark/$of-shuffle-0" | grep -q "not known" || fail "$of is still known"
    done
    rates "$work"/*.explained
    echo "engines: the same in one process, without a network"
    application TeraSort --master "local[2]" examples records=200000 >"$work/sort.alone" 2>"$work/sort.log" ||
        fail "the sort alone has failed: $(tail -n 20 "$work/sort.log")"
    application WordCount --master "local[2]" examples >"$work/count.alone" 2>"$work/count.log" ||
        fail "the count alone has failed: $(tail -n 20 "$work/count.log")"
    cat "$work/sort" "$work/count"
    for job in sort count; do
        [ "$(same "$work/$job")" = "$(same "$work/$job.alone")" ] ||
            fail "$job: other results than alone: $(cat "$work/$job.alone")"
    done
}
