#!/bin/sh
# Makes the images of controller and agent, target/images/watermaster-{controller,agent}.oci.tar: OCI layouts, made with
# neither a container runtime nor root. Both have one layer, layer.tar: the program, the libraries that it links, a shell
# for the chart's scripts, and what Debian says of these packages. PROFILE=quick takes another build, IMAGES=FOLDER is
# where they go. From the same program and packages (packages.txt) the same octets come; times are SOURCE_DATE_EPOCH's,
# or else the commit's.
set -eu
cd "$(dirname "$0")/.."
profile=${PROFILE:-release}
target=${CARGO_TARGET_DIR:-target}
out=$(realpath -m "${IMAGES:-target/images}")
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C
umask 022
cargo build --profile "$profile" --locked --package watermaster
# Only what was made here goes.
mkdir -p "$out"
if [ -n "$(ls -A "$out")" ] && [ ! -e "$out/packages.txt" ] && [ ! -e "$out/root/usr/bin/watermaster" ]; then
    echo "image: $out holds something else; name another by IMAGES" >&2
    exit 2
fi
rm -rf "$out"/root "$out"/debs "$out"/layer.tar* "$out"/packages.txt "$out"/watermaster-*.oci.tar
root=$out/root
mkdir -p "$root" "$out/debs"

# Where /usr is all there is, whatever a package says.
for folder in bin sbin lib lib64; do
    mkdir -p "$root/usr/$folder"
    ln -s "usr/$folder" "$root/$folder"
done
strip -o "$root/usr/bin/watermaster" "$target/$profile/watermaster"

fetch() { # PACKAGES: as files in debs
    (cd "$out/debs" && apt-get download -qq -o APT::Sandbox::User=root "$@")
}
unpack() {
    for deb in "$out"/debs/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" |
            tar --extract --preserve-permissions --no-same-owner --keep-directory-symlink --directory "$root"
    done
}
# Of one file dpkg may know the name below /usr, or the one beside it.
libraries=$(ldd "$root/usr/bin/watermaster" | awk '$2 == "=>" { print $3 } $1 ~ /^\// { print $1 }')
packages=$(for library in $libraries; do
    real=$(realpath "$library")
    found=$(dpkg-query --search "$library" "$real" "${real#/usr}" 2>/dev/null | sed 's/: .*//')
    [ -n "$found" ] || { echo "image: no package of Debian has $library" >&2 && exit 1; }
    echo "$found"
done)
packages=$(echo "$packages" | sort -u)
# shellcheck disable=SC2086 # several words
fetch $packages base-files dash
unpack
# Some have their licence in another package.
others=$(for doc in "$root"/usr/share/doc/*; do
    [ -e "$doc" ] || basename "$(readlink "$doc")"
done | sort -u)
# shellcheck disable=SC2086 # several words
[ -z "$others" ] || { fetch $others && unpack; }

# Who looks for flaws in images reads here which packages they have.
mkdir -p "$root/var/lib/dpkg/status.d"
for deb in "$out"/debs/*.deb; do
    dpkg-deb --field "$deb" >"$root/var/lib/dpkg/status.d/$(dpkg-deb --field "$deb" Package)"
    printf '%s %s %s\n' "$(dpkg-deb --field "$deb" Package)" "$(dpkg-deb --field "$deb" Version)" \
        "$(sha256sum "$deb" | cut -d ' ' -f 1)"
done | sort >"$out/packages.txt"
find "$root/usr/share" -mindepth 1 -maxdepth 1 ! -name doc ! -name common-licenses -exec rm -rf {} +
find "$root/usr/share/doc" -type f ! -name copyright -delete
find "$root/usr/lib" -name gconv -prune -exec rm -rf {} +
install -D -m 644 LICENSE "$root/usr/share/doc/watermaster/copyright"

ln -sf dash "$root/usr/bin/sh"
mkdir -p "$root/etc/watermaster" "$root/run/watermaster" "$root/proc" "$root/sys" "$root/dev" "$root/tmp"
chmod 1777 "$root/tmp"
install -d -m 750 "$root/run/watermaster-controller"
install -d -m 700 "$root/var/lib/watermaster"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
printf '%s\n' root:x:0:0:root:/:/bin/sh watermaster:x:10001:10001:Watermaster:/var/lib/watermaster:/bin/sh \
    >"$root/etc/passwd"
printf '%s\n' root:x:0: watermaster:x:10001: >"$root/etc/group"

layer() { # ACTION OWNER, then what
    action=$1 owner=$2
    shift 2
    tar "--$action" --file "$out/layer.tar" --directory "$root" --format=gnu --sort=name --numeric-owner \
        --mtime="@$SOURCE_DATE_EPOCH" --owner="$owner" --group="$owner" "$@"
}
own="./run/watermaster-controller ./var/lib/watermaster"
# shellcheck disable=SC2086 # two words
layer create 0 $(printf -- '--exclude=%s ' $own) .
# shellcheck disable=SC2086 # two words
layer append 10001 --no-recursion $own
gzip -n -9 --keep "$out/layer.tar"

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
for name in controller agent; do
    python3 packaging/oci.py "$out" "$name" "$version" "$(dpkg --print-architecture)"
    tar --create --file "$out/watermaster-$name.oci.tar" --directory "$out/$name" --format=gnu --sort=name \
        --numeric-owner --owner=0 --group=0 --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" blobs index.json oci-layout
    rm -r "${out:?}/$name"
done
rm -rf "$root" "$out/debs" "$out/layer.tar.gz"
ls -l "$out"
