#!/bin/sh
# Runs make demo and make test of this checkout's last commit in a fresh Debian root of each of SUITES (bookworm and
# trixie) that has Rust, make and git; prints what they print, and how long they took. TOOLCHAIN names a folder of Rust,
# such as `rustc --print sysroot`; without it rustup is fetched.
set -eu
cd "$(dirname "$0")/.."
if [ "$(id -u)" != 0 ]; then
    echo "fresh: a root of its own needs root" >&2
    exit 1
fi
fresh=${CARGO_TARGET_DIR:-$PWD/target}/fresh
rm -rf "$fresh"
mkdir -p "$fresh"
packages=make,git,ca-certificates
[ -n "${TOOLCHAIN:-}" ] || packages=$packages,curl
for suite in ${SUITES:-bookworm trixie}; do
    checks/debian-root.sh "$suite" "$fresh/$suite" "$packages" checks/fresh-root.sh "${TOOLCHAIN:-}"
    echo "fresh: $suite is well"
done
cat "$fresh"/*.times
