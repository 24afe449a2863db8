#!/bin/sh
# Real engines in a lab, under controller and agent: each comes up by one command and does what its script in
# checks/engines says, and nothing is left of it, nor of a start that is killed. checks/engines.sh [ENGINE…]
# Needs root and Java; under sudo, the user's own toolchain builds. WATERMASTER=FILE takes a program that is built.
set -eu
cd "$(dirname "$0")/.."
if [ "$(id -u)" != 0 ]; then
    echo "engines: skipped: network namespaces and BPF need root; run sudo make engines"
    exit
fi
[ $# != 0 ] || set -- hadoop storm
for engine in "$@"; do
    [ -f "checks/engines/$engine.sh" ] || {
        echo "engines: there is no $engine; name hadoop or storm, or none for all" >&2
        exit 2
    }
done
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
name=engines$$
folder=/run/watermaster/lab/$name
work=$(mktemp -d)
trap '"$WATERMASTER" lab down "$name" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

fail() {
    echo "engines: $1" >&2
    exit 1
}
# Slow links, so that what crosses them takes seconds.
up() {
    "$WATERMASTER" lab up "scenarios/engines/$engine.toml" --engine "$engine" --name "$name" \
        --set "topology.access.capacity=3 Mbit/s"
}
# HOST COMMAND…
at() {
    host=$1
    shift
    "$WATERMASTER" lab shell "$name" "$host" -- "$@"
}
# APPLICATION/JOB
explain() {
    "$WATERMASTER" explain "$1" --controller "unix:$folder/controller.sock" 2>&1 || true
}
# FILE…, of what explain said again and again
rates() {
    grep -h "enforced [0-9]" "$@" | sort | uniq -c | sort -rn | head -n 5 >"$work/held"
    [ -s "$work/held" ] || fail "no flow was held to a rate"
    echo "engines: rates that flows were held to, as often as they were seen:"
    cat "$work/held"
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

for engine in "$@"; do
    begin=$(date +%s)
    # What up tells while daemons start, and `try`, which fails where something is wrong.
    # shellcheck source=/dev/null
    . "checks/engines/$engine.sh"
    echo "engines: $engine"
    up
    try
    "$WATERMASTER" lab down "$name"
    gone
    echo "engines: a start of $engine that is killed"
    up >"$work/up" 2>&1 &
    killed=$!
    until grep -q "$starting" "$work/up"; do
        kill -0 $killed 2>/dev/null || fail "up has failed: $(cat "$work/up")"
        sleep 0.1
    done
    kill -9 $killed
    ! grep -q fetching "$work/up" || fail "what was fetched was fetched again"
    "$WATERMASTER" lab down "$name"
    gone
    echo "engines: $engine: $(($(date +%s) - begin)) s"
done
