#!/bin/sh
# In mount and process namespaces of its own: fresh-root.sh ROOT TARGET… makes each TARGET in ROOT (checks/fresh.sh).
set -eu
root=$1
shift
cargo=${CARGO_HOME:-$HOME/.cargo}
rustup=${RUSTUP_HOME:-$HOME/.rustup}
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mkdir -p "$root/etc/ssl/certs" "$root/opt/rustup" "$root/opt/cargo"
mount --bind /etc/ssl/certs "$root/etc/ssl/certs"
mount --bind "$rustup" "$root/opt/rustup"
mount --bind "$cargo" "$root/opt/cargo"
for target in "$@"; do
    begin=$(date +%s)
    chroot "$root" env -i HOME=/root TERM=dumb RUSTUP_HOME=/opt/rustup CARGO_HOME=/opt/cargo \
        PATH=/opt/cargo/bin:/usr/sbin:/usr/bin:/sbin:/bin make -C /root/watermaster "$target"
    echo "fresh: make $target: $(($(date +%s) - begin)) s"
done
