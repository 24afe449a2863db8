#!/bin/sh
# Runs every fuzz target for so many seconds: fuzz/run.sh SECONDS [TARGET…]
set -eu
cd "$(dirname "$0")"
seconds=$1
shift
[ $# -gt 0 ] || set -- $(ls seeds)
for target in "$@"; do
    mkdir -p "corpus/$target"
    # The project's own scenarios are seeds too.
    [ "$target" = scenario ] && more=scenarios || more=
    (cd .. && cargo +nightly fuzz run "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" $more -- \
        -max_total_time="$seconds" -print_final_stats=1)
done
