#!/bin/sh
# Runs all test programs of the workspace in two lanes: those of cli/ and live/ wait for the kernel and for daemons more
# than half of their time, and the others compute meanwhile (docs/decisions/tests-run-in-two-lanes.md).
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cargo test --workspace --locked --lib --bins --tests --no-run --message-format=json-render-diagnostics >"$work/built"
# Each line: the package's folder, and one of its test programs.
sed -n '/"profile":{[^}]*"test":true}/s/.*"manifest_path":"\([^"]*\)\/Cargo.toml".*"executable":"\([^"]*\)".*/\1 \2/p' "$work/built" |
    sort -u >"$work/programs"

# Runs the programs that it reads, one after another, as cargo does.
lane() {
    while read -r folder program; do
        rc=0 began=$(date +%s)
        (cd "$folder" && CARGO_MANIFEST_DIR=$folder "$program" </dev/null) >"$work/$1.said" 2>&1 || rc=$?
        # In one piece: the other lane prints, too.
        {
            printf '\n     Ran %s in %s s\n' "$program" $(($(date +%s) - began))
            cat "$work/$1.said"
        } >"$work/$1.whole"
        cat "$work/$1.whole"
        [ "$rc" -eq 0 ] || echo "$program (exit code $rc)" >>"$work/failed"
    done
}

waits="^$PWD/\(cli\|live\)/"
grep "$waits" "$work/programs" | lane waiting &
{
    cargo check --quiet --locked --manifest-path checks/no-std/Cargo.toml || echo "checks/no-std" >>"$work/failed"
    grep -v "$waits" "$work/programs" | lane computing
}
wait
if [ -e "$work/failed" ]; then
    echo 'failed:' >&2
    sed 's/^/    /' "$work/failed" >&2
    exit 1
fi
printf '\n%s test programs passed\n' "$(wc -l <"$work/programs")"
