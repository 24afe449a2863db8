# shellcheck shell=sh
# For scripts that run real engines in a lab, which source it: what they share. The program and the plug-ins are built,
# under sudo by the user's own toolchain, and the lab goes when the script ends. WATERMASTER=FILE takes a program that
# is built.
me=$(basename "$0" .sh)
if [ "$(id -u)" != 0 ]; then
    echo "$me: skipped: network namespaces and BPF need root; run sudo make $me"
    exit
fi
user=${SUDO_USER:-root}
PATH=$PATH:$(getent passwd "$user" | cut -d: -f6)/.cargo/bin
export PATH
as_user() {
    # shellcheck disable=SC2086
    ${SUDO_USER:+sudo -u "$user" -H env PATH="$PATH"} "$@"
}
checks/setup.sh build lab java python
if [ -z "${WATERMASTER-}" ]; then
    as_user cargo build --profile quick --locked --package watermaster
    WATERMASTER=${CARGO_TARGET_DIR:-target}/quick/watermaster
fi
# Maven takes half a minute to find that nothing has changed since what is installed was built here.
built=plugins/spark/target/watermaster-spark-0.1.0.jar
installed() {
    [ -e "$built" ] || return 1
    [ -z "$(find plugins/pom.xml plugins/*/pom.xml plugins/*/src -newer "$built")" ] || return 1
    for jar in plugins/*/target/watermaster-*-0.1.0.jar; do
        own=$(basename "$jar" -0.1.0.jar)
        cmp -s "$jar" "$(getent passwd "$user" | cut -d: -f6)/.m2/repository/io/watermaster/$own/0.1.0/$own-0.1.0.jar" ||
            return 1
    done
}
if ! installed; then
    as_user mvn -q -B -f plugins/pom.xml install -DskipTests
    as_user touch "$built"
fi
name=engines$$
folder=/run/watermaster/lab/$name
work=$(mktemp -d)
trap '"$WATERMASTER" lab down "$name" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

fail() {
    echo "$me: $1" >&2
    exit 1
}
# ARGUMENTS of lab up
up() {
    "$WATERMASTER" lab up "scenarios/engines/$engine.toml" --engine "$engine" --name "$name" "$@"
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
# Until COMMAND… succeeds, for a quarter of an hour; WHAT is missing otherwise
await() {
    what=$1
    shift
    last=$(($(date +%s) + 900))
    until "$@"; do
        [ "$(date +%s)" -lt $last ] || fail "$what: $(at h0 "$engine" list; tail -n 20 "$folder"/engines/"$engine"/logs/*.out)"
        sleep 0.5
    done
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
