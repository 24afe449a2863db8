#!/bin/sh
# In a network namespace of its own: deb-run.sh ROOT runs the installed controller and agent, and has a flow governed.
set -eu
root=$1
ip link set lo up
cat >"$root/etc/watermaster/controller.toml" <<'TOML'
state = "/var/lib/watermaster"
[listen]
http = "127.0.0.1:7443"
[tls]
ca = "certs/ca.crt"
certificate = "certs/controller-main.crt"
key = "certs/controller-main.key"
[policy]
name = "fair"
[topology]
kind = "custom"
hosts = ["h1", "h2"]
switches = ["s1"]
link = [
  { from = "h1", to = "s1", capacity = "8 Mbit/s", delay = "10 us" },
  { from = "h2", to = "s1", capacity = "8 Mbit/s", delay = "10 us" },
]
[[host]]
name = "h1"
addresses = ["127.0.0.1"]
[[host]]
name = "h2"
addresses = ["127.0.0.2"]
TOML
cat >"$root/etc/watermaster/agent.toml" <<'TOML'
name = "a1"
controller = "https://127.0.0.1:7443"
[tls]
ca = "certs/ca.crt"
certificate = "certs/agent-a1.crt"
key = "certs/agent-a1.key"
[[host]]
name = "h1"
addresses = ["127.0.0.1"]
[[host]]
name = "h2"
addresses = ["127.0.0.2"]
TOML
# What the units have systemd do: folders, each its user's, the file system of programs, the user.
in_unit() { sed -n "s/^$2=//p" "$root/usr/lib/systemd/system/watermaster-$1.service"; }
chroot "$root" install -d -o watermaster -g watermaster -m 0750 "/run/$(in_unit controller RuntimeDirectory)"
chroot "$root" install -d -o root -g root -m 0750 "/run/$(in_unit agent RuntimeDirectory)"
chroot "$root" install -d -o watermaster -g watermaster -m 0700 /var/lib/watermaster
chroot "$root" install -d -m 0700 /run/watermaster/bpf
mount -t bpf -o mode=0700 bpf "$root/run/watermaster/bpf"
chroot "$root" watermaster certs --directory /etc/watermaster/certs --controller main=127.0.0.1 --agent a1
check() {
    chroot "$root" setpriv --reuid watermaster --regid watermaster --clear-groups \
        watermaster controller --check --config /etc/watermaster/controller.toml 2>&1
}
# Keys are root's until the service is given its own (docs/operating.md).
if said=$(check) || ! echo "$said" | grep -q controller-main.key; then
    echo "deb: the key is root's, and the check says: $said"
    exit 1
fi
chroot "$root" chown watermaster: /etc/watermaster/certs/controller-main.key
check
# shellcheck disable=SC2046 # words
{
    chroot "$root" watermaster agent --check --config /etc/watermaster/agent.toml
    chroot "$root" setpriv --reuid watermaster --regid watermaster --clear-groups $(in_unit controller ExecStart) &
    controller=$!
    chroot "$root" $(in_unit agent ExecStart) &
    agent=$!
}
# systemd removes the controller's folder at its stop, and keeps the agent's.
trap 'kill "$controller" "$agent"; wait; rm -r "$root/run/$(in_unit controller RuntimeDirectory)"' EXIT
python3 checks/deb_flow.py "$root/run/watermaster-controller/controller.sock" chroot "$root" watermaster
# A purge leaves them.
rm -r "$root/etc/watermaster/certs"
