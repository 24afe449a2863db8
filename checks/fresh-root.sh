#!/bin/sh
# In mount and process namespaces of its own: fresh-root.sh TOOLCHAIN ROOT runs make demo and make test in ROOT
# (checks/fresh.sh). Without a TOOLCHAIN rustup installs one.
set -eu
toolchain=$1
root=$2
in_root() {
    chroot "$root" env -u CARGO_HOME -u CARGO_TARGET_DIR -u RUSTUP_HOME -u RUSTUP_TOOLCHAIN -u MAKEFLAGS -u MAKELEVEL \
        HOME=/root LANG=C.UTF-8 PATH=/rust/bin:/root/.cargo/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
# What this machine trusts beside Debian's authorities: a proxy may stand between it and where crates come from.
trusted=/usr/local/share/ca-certificates
if [ -n "$(ls "$trusted" 2>/dev/null)" ]; then
    cp "$trusted"/* "$root$trusted/"
    in_root update-ca-certificates >/dev/null
fi
git clone --quiet --no-hardlinks "$PWD" "$root/src"
if [ -n "$toolchain" ]; then
    mkdir "$root/rust"
    mount --bind "$toolchain" "$root/rust"
else
    channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
    # shellcheck disable=SC2016 # it is for the inner one
    in_root sh -euc 'curl -sSf https://sh.rustup.rs | sh -s -- -y -q --profile minimal --default-toolchain "$1"' sh "$channel"
fi
for target in demo test; do
    began=$(date +%s)
    rc=0
    in_root make -C /src "$target" >"$root.$target" 2>&1 || rc=$?
    cat "$root.$target"
    echo "fresh: $(basename "$root"): make $target: $(($(date +%s) - began)) s, exit code $rc" | tee -a "$root.times"
    [ "$rc" -eq 0 ] || exit 1
done
