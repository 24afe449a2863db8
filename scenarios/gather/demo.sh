#!/bin/sh
# Requests for many objects of memcached in a lab of racks (racks.toml): by a stock client alone, by twemproxy, and by
# `watermaster gather` under several policies. Needs root, memcached, nutcracker, and python3 with venv.
# Usage: scenarios/gather/demo.sh PROGRAM [--json] [--racks N] [--hosts N] [--objects N] [--requests N] [--rounds N]
set -eu
cd "$(dirname "$0")/../.."
if [ "$(id -u)" != 0 ]; then
    echo "gather-demo: skipped: network namespaces need root; run sudo make gather-demo"
    exit
fi
venv=$PWD/target/gather-demo
tools="pylibmc==1.6.3"
if [ "$(cat "$venv/tools" 2>/dev/null)" != "$tools" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$tools"
    echo "$tools" >"$venv/tools"
fi
exec "$venv/bin/python" scenarios/gather/demo.py "$@"
