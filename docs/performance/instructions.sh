#!/bin/sh
# Instructions per hop of each bench workload, counted by callgrind: the same for the same binary, however
# busy the machine. Usage: instructions.sh path/to/watermaster [WORKLOAD…]
set -eu
program=$1
shift
if ! command -v valgrind >/dev/null; then
    echo "skipped: valgrind is missing; apt-get install valgrind" >&2
    exit 0
fi
[ $# -gt 0 ] || set -- w1 w1-long w2 permutation-128 permutation-1024
counts=$(mktemp)
trap 'rm -f "$counts"' EXIT
printf '%-17s %15s %12s %18s\n' workload instructions hops 'instructions/hop'
for workload in "$@"; do
    hops=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null --log-file="$counts" \
        "$program" bench "$workload" --runs 1 --json | sed 's/.*"hops":\([0-9]*\).*/\1/')
    instructions=$(sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$counts")
    printf '%-17s %15d %12d %18d\n' "$workload" "$instructions" "$hops" $((instructions / hops))
done
