#!/bin/sh
# In mount and process namespaces of its own: deb-root.sh ROOT tries the packages in ROOT/tmp (checks/deb.sh).
set -eu
root=$1
in_root() { chroot "$root" env DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
installed() {
    find "$root/etc" "$root/usr" "$root/var/lib" \
        \( -path "$root/var/lib/dpkg" -o -path "$root/var/lib/apt" \) -prune -o -print | sort
}
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"

# What they depend on comes first, so that what they leave can be told from what it leaves.
in_root apt-get install -qq --yes --no-install-recommends libelf1 zlib1g procps >/dev/null
installed >"$root/tmp/before"
in_root sh -ec 'apt-get install -qq --yes /tmp/watermaster*.deb >/dev/null'
in_root watermaster --version
in_root sh -ec 'test -s /usr/share/man/man1/watermaster-run.1.gz'
# Their units have nothing that this Debian's systemd doesn't know, and give away no more than this, in tenths.
for most in controller=20 agent=65; do
    unit=watermaster-${most%=*}.service
    in_root systemd-analyze verify "/usr/lib/systemd/system/$unit"
    in_root systemd-analyze security --no-pager --offline=true --threshold="${most#*=}" "$unit" >"$root/tmp/security"
    tail -n 1 "$root/tmp/security"
done

# As the units start them, in a network of its own.
unshare --net checks/deb-run.sh "$root"

in_root sh -ec 'dpkg --install /tmp/watermaster*.deb >/dev/null'
grep -q 'hosts = \["h1", "h2"\]' "$root/etc/watermaster/controller.toml" # an upgrade keeps the configuration
in_root apt-get purge -qq --yes watermaster watermaster-controller watermaster-agent >/dev/null
installed >"$root/tmp/after"
diff "$root/tmp/before" "$root/tmp/after"
