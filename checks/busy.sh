#!/bin/sh
# Runs make test TIMES times (20) while a busy loop holds each core; prints how long each run took, and the longest. It
# ends with the first run that fails.
set -eu
cd "$(dirname "$0")/.."
times=${TIMES:-20}
said=${CARGO_TARGET_DIR:-$PWD/target}/busy.log
mkdir -p "$(dirname "$said")"
# Compiled beforehand: what is timed is the tests.
cargo test --workspace --locked --lib --bins --tests --no-run --quiet
loops=
# shellcheck disable=SC2086 # several
trap '[ -z "$loops" ] || kill $loops 2>/dev/null' EXIT
trap 'exit 1' HUP INT TERM
for _ in $(seq "$(nproc)"); do
    # It looks now and then whether this still runs, which may have been killed.
    # shellcheck disable=SC2016 # it is for the inner one
    sh -c 'while kill -0 "$1" 2>/dev/null; do
        i=0
        while [ "$i" -lt 100000 ]; do i=$((i + 1)); done
    done' busy $$ &
    loops="$loops $!"
done
longest=0
for run in $(seq "$times"); do
    began=$(date +%s)
    if ! make test >"$said" 2>&1; then
        tail -n 40 "$said" >&2
        echo "busy: run $run of $times failed; $said has all that it said" >&2
        exit 1
    fi
    took=$(($(date +%s) - began))
    echo "busy: run $run of $times: $took s"
    [ "$took" -le "$longest" ] || longest=$took
done
# What was skipped in the last.
sed -n '/ times a test was skipped/,$p' "$said"
echo "busy: $times runs of make test beside $(nproc) busy loops passed, the longest in $longest s"
