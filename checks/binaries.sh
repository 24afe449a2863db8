#!/bin/sh
# The repository has no binary but pictures of its pages, seeds of fuzz targets, and the objects that `make bpf` makes of
# the source beside them (`make bpf-check` compares these).
set -eu
cd "$(dirname "$0")/.."
files=$(git ls-files --eol)
said=$(echo "$files" | sed -n 's/^i\/-text.*\t//p' | while read -r file; do
    case $file in
    docs/images/*.png | fuzz/seeds/*) ;;
    live/kernel/bpf/objects/*.o)
        source=live/kernel/bpf/$(basename "$file" .o).c
        [ -e "$source" ] || echo "$file: there is no $source; remove the object"
        ;;
    *) echo "$file: a binary that no source makes; git rm --cached it, and let .gitignore name it" ;;
    esac
done)
[ -z "$said" ] || { echo "$said" >&2 && exit 1; }
