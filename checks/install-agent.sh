#!/bin/sh
# Installs what linking with libbpf needs, where it is missing (Debian or Ubuntu, root).
set -eu
if pkg-config --exists libelf zlib 2>/dev/null && command -v cc >/dev/null && command -v make >/dev/null; then
    exit
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "agent: missing: install the packages gcc make pkg-config libelf-dev zlib1g-dev" >&2
    exit 1
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq gcc make pkg-config libelf-dev zlib1g-dev
