#!/bin/sh
# Instructions per hop of each bench workload and per decision of each policy, counted by callgrind: the same for the same binary, however
# busy the machine. Usage: instructions.sh path/to/watermaster [WORKLOAD | DECISION]…
set -eu
program=$1
shift
if ! command -v valgrind >/dev/null; then
    echo "skipped: valgrind is missing; apt-get install valgrind" >&2
    exit 0
fi
decisions=$("$program" bench decide --runs 1 --json | sed 's/.*"name":"\([^"]*\)".*/\1/')
if [ $# -eq 0 ]; then
    # Names have no spaces.
    # shellcheck disable=SC2086
    set -- w1 w1-long w2 permutation-128 permutation-1024 $decisions
fi
counts=$(mktemp)
printed=$(mktemp)
trap 'rm -f "$counts" "$printed"' EXIT

# Instructions of `watermaster bench` with these arguments; what that prints goes to descriptor 3.
counted() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null --log-file="$counts" "$program" bench "$@" >&3
    sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$counts"
}

is_decision() {
    printf '%s\n' "$decisions" | grep -qx -- "$1"
}

printf '%-28s %15s %10s %16s\n' 'workload or decision' instructions 'of' 'for one'
for name in "$@"; do
    if is_decision "$name"; then
        # The state is made in both counts; the first ten decisions fill tables.
        times=10
        instructions=$(($(counted decide "$name" --runs 20 3>/dev/null) - $(counted decide "$name" --runs 10 3>/dev/null)))
    else
        instructions=$(counted "$name" --runs 1 --json 3>"$printed")
        times=$(sed 's/.*"hops":\([0-9]*\).*/\1/' "$printed")
    fi
    printf '%-28s %15d %10d %16d\n' "$name" "$instructions" "$times" $((instructions / times))
done
