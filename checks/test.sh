#!/bin/sh
# Runs all test programs of the workspace in three lanes: those of cli/ and those of live/ wait for the kernel and for
# daemons more than half of their time, and the others compute meanwhile (docs/decisions/tests-run-in-lanes.md). What was
# skipped stands at the end. With SKIPS=none it fails where a test is skipped, but for what needs published traces, what other
# targets run (make conformance, make openapi), a kernel before what a test needs, machines too slow to judge, and a machine
# on which agents that no test ends are always there.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cargo test --workspace --locked --lib --bins --tests --no-run --message-format=json-render-diagnostics >"$work/built"
# Each line: the package's folder, and one of its test programs.
sed -n '/"profile":{[^}]*"test":true}/s/.*"manifest_path":"\([^"]*\)\/Cargo.toml".*"executable":"\([^"]*\)".*/\1 \2/p' \
    "$work/built" | sort -u >"$work/programs"
[ -s "$work/programs" ] || {
    echo "there is no test program in what cargo said that it built" >&2
    exit 1
}
for wide in cli live; do
    grep "^$PWD/$wide[/ ]" "$work/programs" >"$work/$wide"
done
grep -v "^$PWD/\(cli\|live\)[/ ]" "$work/programs" >"$work/computing"

# Runs the programs of a lane one after another, as cargo does.
lane() {
    while read -r folder program; do
        rc=0 began=$(date +%s)
        (cd "$folder" && CARGO_MANIFEST_DIR=$folder "$program" </dev/null) >"$work/$1.said" 2>&1 || rc=$?
        # In one piece: the other lanes print, too.
        {
            printf '\n     Ran %s in %s s\n' "$program" $(($(date +%s) - began))
            cat "$work/$1.said"
        } >"$work/$1.whole"
        cat "$work/$1.whole"
        # What testing/src/needs.rs says.
        sed -n 's/.*\(skipped: [^ ]*\.rs: .*\)/\1/p' "$work/$1.said" >>"$work/$1.skipped"
        echo "$rc $program" >>"$work/$1.ran"
    done <"$work/$1"
}

touch "$work/cli.skipped" "$work/live.skipped" "$work/computing.skipped"
lane cli &
cli=$!
lane live &
live=$!
failed=0
cargo check --quiet --locked --manifest-path checks/no-std/Cargo.toml || failed=1
lane computing
wait "$cli" || failed=1
wait "$live" || failed=1
# A lane that ended early has run fewer.
cut -d' ' -f2- "$work"/*.ran | sort >"$work/ran"
if ! cut -d' ' -f2- "$work/programs" | sort | diff - "$work/ran" >"$work/missing"; then
    echo 'these did not run:' >&2
    sed -n 's/^[<>]/   /p' "$work/missing" >&2
    failed=1
fi
if grep -hv '^0 ' "$work"/*.ran >"$work/wrong"; then
    echo 'failed, with their exit codes:' >&2
    sed 's/^/    /' "$work/wrong" >&2
    failed=1
fi
cat "$work"/*.skipped >"$work/skipped"
may='TRACES names no folder|make (conformance|openapi)|before Linux|the machine (was|is) too|other agents govern'
if [ "${SKIPS:-}" = none ] && grep -Ev "$may" "$work/skipped" >"$work/refused"; then
    echo 'these may not be skipped:' >&2
    sed 's/^/    /' "$work/refused" >&2
    failed=1
fi
if [ -s "$work/skipped" ]; then
    printf '\n%s times a test was skipped, or a part of it:\n' "$(wc -l <"$work/skipped")"
    sed 's/^skipped: [^ ]* //' "$work/skipped" | sort | uniq -c | sort -rn
fi
[ "$failed" -eq 0 ] || exit 1
printf '\n%s test programs passed\n' "$(wc -l <"$work/ran")"
