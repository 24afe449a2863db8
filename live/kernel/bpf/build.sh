#!/bin/sh
# Compiles the BPF programs into objects/, or with --check compares what is there with its source.
# The compiler's version is pinned, because the comparison is of octets.
set -eu
cd "$(dirname "$0")"
version=19
if ! command -v "clang-$version" >/dev/null || ! command -v "llvm-strip-$version" >/dev/null ||
    [ ! -e /usr/include/bpf/bpf_helpers.h ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "bpf: missing: install the packages clang-$version llvm-$version libbpf-dev" >&2
        exit 1
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "clang-$version" "llvm-$version" libbpf-dev
fi
compile() { # SOURCE OBJECT
    "clang-$version" -target bpf -mcpu=v3 -O2 -g -Wall -Wextra -Werror -Wno-missing-declarations \
        -I. -fdebug-prefix-map="$PWD"=. -c "$1" -o "$2"
    "llvm-strip-$version" --strip-debug "$2" # the types (BTF) stay, lines of DWARF go
}
if [ "${1:-}" != --check ]; then
    for source in *.bpf.c; do
        compile "$source" "objects/${source%.c}.o"
    done
    exit
fi
fresh=$(mktemp -d)
trap 'rm -r "$fresh"' EXIT
for source in *.bpf.c; do
    object=${source%.c}.o
    compile "$source" "$fresh/$object"
    if ! cmp "$fresh/$object" "objects/$object"; then
        echo "bpf: objects/$object doesn't match $source; run make bpf" >&2
        exit 1
    fi
    echo "objects/$object matches $source"
done
