#!/bin/sh
# In mount and process namespaces of its own: deb-root.sh ROOT tries in ROOT the packages beside it (checks/deb.sh).
set -eu
root=$1
in_root() { chroot "$root" env DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
installed() {
    find "$root/etc" "$root/usr" "$root/var" \( -path "$root/var/lib/dpkg" -o -path "$root/var/lib/apt" \
        -o -path "$root/var/cache" -o -path "$root/var/log" \) -prune -o -print | sort
    find "$root/run" -maxdepth 1 -name '*watermaster*'
}
cp "$root"/../*.deb "$root/tmp/"

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

# A next version has other defaults. systemd doesn't run here: a stub in its place notes what it is asked.
in_root sh -es <<'SH'
mkdir -p /tmp/next /tmp/stubs /run/systemd/system
for deb in /tmp/watermaster*.deb; do
    version=$(dpkg-deb --field "$deb" Version)
    dpkg-deb --raw-extract "$deb" /tmp/unpacked
    sed -i "s/$version/$version+next/" /tmp/unpacked/DEBIAN/control
    for default in /tmp/unpacked/etc/watermaster/*.toml; do
        [ ! -e "$default" ] || echo '# of the next version' >>"$default"
    done
    dpkg-deb -Zgzip -z1 --root-owner-group --build /tmp/unpacked "/tmp/next/$(basename "$deb")" >/dev/null
    rm -r /tmp/unpacked
done
printf '#!/bin/sh\necho "$@" >>/tmp/asked\n' >/tmp/stubs/deb-systemd-invoke
chmod +x /tmp/stubs/deb-systemd-invoke
ln -s deb-systemd-invoke /tmp/stubs/systemctl
SH
# Asked what to do with a configuration that both changed, dpkg keeps the one that is there.
upgrade() {
    rm -f "$root/tmp/asked"
    in_root env PATH=/tmp/stubs:/usr/sbin:/usr/bin:/sbin:/bin \
        sh -ec 'dpkg --force-confdef --install /tmp/next/*.deb >/dev/null'
    for daemon in controller agent; do # what runs is started again, of the new program
        grep -q "^try-restart watermaster-$daemon.service" "$root/tmp/asked"
    done
}
upgrade
in_root dpkg-query --show --showformat '${Version}\n' watermaster-controller | grep -q next
grep -q 'hosts = \["h1", "h2"\]' "$root/etc/watermaster/controller.toml"
grep -q 'of the next version' "$root/etc/watermaster/controller.toml.dpkg-dist"
# Who has the controller read another file may have removed this one.
rm "$root/etc/watermaster/controller.toml"
upgrade
[ ! -e "$root/etc/watermaster/controller.toml" ]
rmdir "$root/run/systemd/system"
in_root apt-get purge -qq --yes watermaster watermaster-controller watermaster-agent >/dev/null
installed >"$root/tmp/after"
diff "$root/tmp/before" "$root/tmp/after"
