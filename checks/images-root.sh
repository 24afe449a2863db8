#!/bin/sh
# In mount, process and network namespaces of its own: images-root.sh ROOT NAME starts what the image unpacked in ROOT is
# for (checks/images.sh), as packaging/helm/watermaster does: it reads what nobody can write, and its own scripts.
set -eu
root=$1
name=$2
chart=packaging/helm/watermaster/files
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
ip link set lo up
in_root() { chroot "$root" "$@"; }
in_root /usr/bin/watermaster --version
mkdir "$root/etc/watermaster/given"
cp "$chart"/*.sh "$root/etc/watermaster/given/"
certs=/etc/watermaster/certs
in_root /usr/bin/watermaster certs --directory "$certs" --controller main=127.0.0.1 --agent node-1.example
if [ "$name" = agent ]; then
    echo 'controller = ["https://127.0.0.1:7443"]' >"$root/etc/watermaster/given/agent.toml"
    configure() {
        in_root /bin/sh -euc "NODE_NAME=node-1.example NODE_ADDRESS=192.0.2.1 CERTIFICATES=$certs \
            /bin/sh /etc/watermaster/given/configure.sh /etc/watermaster/given /etc/watermaster/agent.toml"
    }
    configure
    grep -q '^addresses = \["192.0.2.1"\]$' "$root/etc/watermaster/agent.toml"
    in_root /usr/bin/watermaster agent --check --config /etc/watermaster/agent.toml
    printf '[[host]]\nname = "other"\naddresses = ["192.0.2.2", "2001:db8::2"]\n' \
        >"$root/etc/watermaster/given/node-node-1.example.toml"
    configure
    in_root /usr/bin/watermaster agent --check --config /etc/watermaster/agent.toml
    if grep -q 192.0.2.1 "$root/etc/watermaster/agent.toml"; then
        echo "images: a node's own configuration is not all there is of its hosts" >&2
        exit 1
    fi
    exit 0
fi
cat >"$root/etc/watermaster/controller.toml" <<TOML
state = "/var/lib/watermaster"
[listen]
http = "127.0.0.1:7443"
[tls]
ca = "$certs/ca.crt"
certificate = "$certs/controller-main.crt"
key = "$certs/controller-main.key"
[policy]
name = "smsf"
TOML
chown 10001 "$root$certs/controller-main.key"
as_its_user() { chroot --userspec=10001:10001 --groups= "$root" "$@"; }
as_its_user /usr/bin/watermaster controller --check --config /etc/watermaster/controller.toml
alive() { as_its_user /bin/sh /etc/watermaster/given/alive.sh; }
if alive 2>/dev/null; then
    echo "images: a controller that doesn't run is alive" >&2
    exit 1
fi
# Without the function: what is asked to end is the controller, not a shell around it.
log=$root/tmp/controller.log
chroot --userspec=10001:10001 --groups= "$root" /usr/bin/watermaster controller --config /etc/watermaster/controller.toml \
    >"$log" 2>&1 &
controller=$!
tries=0
until alive 2>/dev/null; do
    kill -0 "$controller" || {
        cat "$log" >&2
        exit 1
    }
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] || {
        echo "images: the controller runs and doesn't answer its probe" >&2
        exit 1
    }
    sleep 0.1
done
# As a kubelet does when it has written another ConfigMap, and when it hasn't.
ready() { as_its_user /bin/sh -c "CONTROLLER=$controller /bin/sh /etc/watermaster/given/ready.sh"; }
has_read() { # TIMES
    tries=0
    until [ "$(grep -c 'configuration read again' "$log")" = "$1" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || {
            cat "$log" >&2
            echo "images: the controller has not read its configuration again $1 times" >&2
            exit 1
        }
        sleep 0.1
    done
}
mkdir "$root/etc/watermaster/given/..2026_01"
ready
has_read 1
ready
mv "$root/etc/watermaster/given/..2026_01" "$root/etc/watermaster/given/..2026_02"
ready
has_read 2
kill "$controller"
ended=0
wait "$controller" || ended=$?
[ "$ended" = 0 ] || {
    echo "images: asked to end, the controller ends with $ended" >&2
    exit 1
}
has_read 2
echo "images: the controller starts, answers its probes, reads its configuration again and ends"
