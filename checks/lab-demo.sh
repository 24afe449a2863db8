#!/bin/sh
# The whole thing on one machine: two racks of Open vSwitch with six hosts, the controller's and the agent's daemon, two
# shuffles over the kernel's TCP, first left alone, then under smsf; beside it what the simulator says of the same file.
# Needs root; under sudo, the user's own toolchain builds.
set -eu
cd "$(dirname "$0")/.."
if [ "$(id -u)" != 0 ]; then
    echo "lab-demo: skipped: network namespaces and BPF need root; run sudo make lab-demo"
    exit
fi
user=${SUDO_USER:-root}
PATH=$PATH:$(getent passwd "$user" | cut -d: -f6)/.cargo/bin
export PATH
checks/setup.sh build lab
# shellcheck disable=SC2086
${SUDO_USER:+sudo -u "$user" -H env PATH="$PATH"} cargo build --profile quick --locked --package watermaster
watermaster=${CARGO_TARGET_DIR:-target}/quick/watermaster
scenario=scenarios/lab/two-shuffles-ovs.toml
name=demo$$
trap '"$watermaster" lab down "$name" >/dev/null 2>&1 || true' EXIT
trap 'exit 1' INT TERM
begin=$(date +%s)

echo "The cluster: $scenario"
echo "(a fifth of the rates of two-shuffles.toml: Open vSwitch's user-space datapath carries no more)"
"$watermaster" lab up "$scenario" --name "$name"
echo
"$watermaster" status --controller "unix:/run/watermaster/lab/$name/controller.sock" | sed '/^link/,$d'
"$watermaster" lab down "$name"
echo
echo "Two shuffles, simulated and live (pacing), each policy in a cluster of its own:"
"$watermaster" lab compare "$scenario" --policy tcp,smsf
"$watermaster" lab list
echo "lab-demo: $(($(date +%s) - begin)) s"
