#!/bin/sh
# Real engines in a lab, under controller and agent: Hadoop's daemons come up by one command, two sorts run there at once,
# the controller knows their sizes, flows and connections, the agent holds them to rates, and nothing is left of it all.
# Needs root and Java; under sudo, the user's own toolchain builds. WATERMASTER=FILE takes a program that is built.
set -eu
cd "$(dirname "$0")/.."
if [ "$(id -u)" != 0 ]; then
    echo "engines: skipped: network namespaces and BPF need root; run sudo make engines"
    exit
fi
user=${SUDO_USER:-root}
PATH=$PATH:$(getent passwd "$user" | cut -d: -f6)/.cargo/bin
export PATH
as_user() {
    # shellcheck disable=SC2086
    ${SUDO_USER:+sudo -u "$user" -H env PATH="$PATH"} "$@"
}
checks/setup.sh build lab java
if [ -z "${WATERMASTER-}" ]; then
    as_user cargo build --profile quick --locked --package watermaster
    WATERMASTER=${CARGO_TARGET_DIR:-target}/quick/watermaster
fi
as_user mvn -q -B -f plugins/pom.xml install -DskipTests
scenario=scenarios/engines/hadoop.toml
name=engines$$
folder=/run/watermaster/lab/$name
work=$(mktemp -d)
trap '"$WATERMASTER" lab down "$name" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

fail() {
    echo "engines: $1" >&2
    exit 1
}
# Slow links, so that fetches take seconds.
up() {
    "$WATERMASTER" lab up "$scenario" --engine hadoop --name "$name" --set "topology.access.capacity=3 Mbit/s"
}
hadoop() {
    "$WATERMASTER" lab shell "$name" h0 -- hadoop "$@"
}
# JOB of a client's log, once it has one
job() {
    sed -n 's/.*Running job: \(job_[0-9_]*\).*/\1/p' "$1"
}
explain() {
    "$WATERMASTER" explain "mapreduce/$1" --controller "unix:$folder/controller.sock" 2>&1 || true
}
# Nothing of the lab is left.
gone() {
    [ -z "$(find /run/netns -name "wm-$name-*")" ] || fail "namespaces are left"
    ! grep -q "$name" /proc/mounts || fail "mounts are left"
    for group in $(grep -ls "watermaster-$name-" /proc/[0-9]*/cgroup); do
        # What has ended has no command any more.
        left=$(tr '\0' ' ' 2>/dev/null <"${group%cgroup}cmdline" || true)
        [ -z "$left" ] || fail "a process is left: $left"
    done
    [ -z "$(find /sys/fs/cgroup -maxdepth 2 -name "watermaster-$name-*")" ] || fail "control groups are left"
    for path in "$folder" "$folder.json" "/var/lib/watermaster-lab/$name"; do
        [ ! -e "$path" ] || fail "$path is left"
    done
}

begin=$(date +%s)
up
echo "engines: two sorts of 30 MB at once"
# A sort first reads so many records, which slow links would make long.
few=-Dmapreduce.terasort.partitions.sample=3000
hadoop jar examples teragen 300000 /in >"$work/teragen" 2>&1 || fail "teragen has failed: $(tail -n 20 "$work/teragen")"
hadoop jar examples terasort "$few" /in /first >"$work/first" 2>&1 &
first=$!
hadoop jar examples terasort "$few" /in /second >"$work/second" 2>&1 &
second=$!
while kill -0 $first 2>/dev/null || kill -0 $second 2>/dev/null; do
    for sort in first second; do
        of=$(job "$work/$sort")
        [ -z "$of" ] || explain "$of" >>"$work/$sort.explained"
    done
    sleep 0.3
done
for sort in first second; do
    wait "$([ $sort = first ] && echo $first || echo $second)" || fail "a sort has failed: $(tail -n 20 "$work/$sort")"
    of=$(job "$work/$sort")
    echo "engines: $of"
    # 300,000 records of 100 octets, each with a length before its key and its value.
    grep -q "^mapreduce/$of: 312[0-9]* bytes declared" "$work/$sort.explained" || fail "$of: sizes were not declared"
    grep -q "^flow mapreduce/$of/m_" "$work/$sort.explained" || fail "$of: no fetch was declared"
    grep -q "^  over 10\..*:13562 -> 10\." "$work/$sort.explained" || fail "$of: no fetch was found among the connections"
    explain "$of" | grep -q "not known" || fail "$of is still known"
done
grep -h "enforced [0-9]" "$work"/*.explained | sort | uniq -c | sort -rn | head -n 5 >"$work/held"
[ -s "$work/held" ] || fail "no fetch was held to a rate"
echo "engines: rates that fetches were held to, as often as they were seen:"
cat "$work/held"
hadoop fs -cat /second/_SUCCESS >/dev/null 2>&1 || fail "the second sort left no result"
"$WATERMASTER" lab down "$name"
gone

echo "engines: a start that is killed"
up >"$work/up" 2>&1 &
killed=$!
until grep -q "DataNodes," "$work/up"; do
    kill -0 $killed 2>/dev/null || fail "up has failed: $(cat "$work/up")"
    sleep 0.1
done
kill -9 $killed
! grep -q fetching "$work/up" || fail "what was fetched was fetched again"
"$WATERMASTER" lab down "$name"
gone
echo "engines: $(($(date +%s) - begin)) s"
