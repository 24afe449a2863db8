#!/bin/sh
# debian-root.sh SUITE ROOT PACKAGES COMMAND [ARGUMENT…]: makes a fresh Debian root with these packages more, parted by
# commas, and runs COMMAND ARGUMENT… ROOT beside it. That has namespaces for mounts and processes: all that runs in
# the root, and what is mounted there, ends with it. The root is removed where it went well.
set -eu
suite=$1 root=$2 packages=$3
shift 3
debootstrap --variant=minbase --include="$packages" "$suite" "$root" >"$root.log" || { tail "$root.log" && exit 1; }
# A root that is no mount of its own has no namespaces of networks by name.
# shellcheck disable=SC2016 # it is for the inner one
unshare --mount --pid --fork --kill-child sh -euc '
    root=$1
    shift
    mount --make-rprivate /
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    exec "$@"
' sh "$root" "$@" "$root"
rm -rf "$root"
