#!/bin/sh
# Instructions per hop of each bench workload and per decision of each policy, counted by callgrind: the same for the same binary, however
# busy the machine. Usage: instructions.sh path/to/watermaster [WORKLOAD…]
set -eu
program=$1
shift
if ! command -v valgrind >/dev/null; then
    echo "skipped: valgrind is missing; apt-get install valgrind" >&2
    exit 0
fi
if [ $# -eq 0 ]; then
    set -- w1 w1-long w2 permutation-128 permutation-1024
    decisions=$("$program" bench decide --runs 1 --json | sed 's/.*"name":"\([^"]*\)".*/\1/')
fi
counts=$(mktemp)
trap 'rm -f "$counts"' EXIT
printf '%-17s %15s %12s %18s\n' workload instructions hops 'instructions/hop'
for workload in "$@"; do
    hops=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null --log-file="$counts" \
        "$program" bench "$workload" --runs 1 --json | sed 's/.*"hops":\([0-9]*\).*/\1/')
    instructions=$(sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$counts")
    printf '%-17s %15d %12d %18d\n' "$workload" "$instructions" "$hops" $((instructions / hops))
done

# What the eleventh to twentieth decision need: the state is made in both counts.
counted() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null --log-file="$counts" \
        "$program" bench decide "$1" --runs "$2" >/dev/null
    sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$counts"
}
[ -z "${decisions:-}" ] || printf '\n%-32s %22s\n' case 'instructions/decision'
for case in ${decisions:-}; do
    printf '%-32s %22d\n' "$case" $((($(counted "$case" 20) - $(counted "$case" 10)) / 10))
done
