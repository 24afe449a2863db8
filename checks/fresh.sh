#!/bin/sh
# Makes TARGETS (demo and test) of what is committed in a fresh root of each of SUITES (bookworm and trixie) that has make, git and
# this machine's Rust, and says how long each took. Certificates and fetched crates are this machine's. Needs root and debootstrap.
set -eu
cd "$(dirname "$0")/.."
if [ "$(id -u)" != 0 ]; then
    echo "fresh: a fresh root needs root" >&2
    exit 1
fi
fresh=$PWD/target/fresh
mkdir -p "$fresh"
for suite in ${SUITES:-bookworm trixie}; do
    root=$fresh/$suite
    rm -rf "$root"
    debootstrap --variant=minbase --include=make,git "$suite" "$root" >"$fresh/$suite.log" ||
        { tail "$fresh/$suite.log" && exit 1; }
    git clone --quiet . "$root/root/watermaster"
    # All that runs in it, and what is mounted, ends with it.
    # shellcheck disable=SC2086 # words
    unshare --mount --pid --fork --kill-child checks/fresh-root.sh "$root" ${TARGETS:-demo test}
    rm -rf "$root"
    echo "fresh: $suite is well"
done
