#!/bin/sh
# Runs the OpenFlow tests that need Open vSwitch and os-ken, and the one that has tshark read our captures, and lets
# none be skipped.
# os-ken goes into a virtual environment below target/.
set -eu
cd "$(dirname "$0")/.."
venv=$PWD/target/os-ken
if ! "$venv/bin/python" -c 'import os_ken' 2>/dev/null; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet os-ken==4.2.2
fi
export CONFORMANCE=1 OS_KEN="$venv/bin/python"
cargo test --locked --package watermaster-openflow --test conformance --test differential
checks/matched.sh cargo test --locked --package watermaster-packet --test it tshark_reads_it
