#!/bin/sh
# Compiles the BPF programs into objects/, or with --check compares what is there with its source.
# The compiler's version is pinned, because the comparison is of octets; checks/setup.sh installs it.
set -eu
cd "$(dirname "$0")"
version=19
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
