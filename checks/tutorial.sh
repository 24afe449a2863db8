#!/bin/sh
# Walks through docs/tutorial.md: runs the commands of its code blocks as they stand there, step by step, and says how
# long each step took. What needs root is skipped without it. A block marked `background` is a second terminal: it goes on
# until the tutorial takes the lab down, and the next block begins when it has printed a line: it is a failure, and its exit
# code is said, where it ended before.
set -eu
cd "$(dirname "$0")/.."
for made in mine.toml out/mine /run/watermaster/lab/tutorial; do
    if [ -e "$made" ]; then
        echo "tutorial: $made is there, which the tutorial would make; remove it" >&2
        exit 1
    fi
done
walk=target/tutorial
mkdir -p "$walk"
rm -f "$walk"/*
awk -v walk="$walk" '
    function finish() {
        if (background) {
            print "} >" walk "/terminal &"
            print "terminal=$!"
            print "prints \"$terminal\" " walk "/terminal"
        }
        if (root) print "else echo \"tutorial: skipped, it needs root\"; fi"
        inside = shell = root = background = 0
    }
    function ended() { if (step != "") print "step \"" step "\"" }
    /^## / { ended(); step = /^## [0-9]/ ? substr($0, 4) : ""; next }
    /^```/ && inside { finish(); next }
    /^```/ {
        inside = 1
        shell = ($1 == "```sh")
        root = (shell && / root/)
        background = (shell && / background/)
        if (root) print "if [ \"$(id -u)\" = 0 ]; then"
        if (background) print "{"
        next
    }
    root && / lab down / { print "goes_on \"$terminal\"" }
    shell
    END { ended() }
' docs/tutorial.md >"$walk/commands.sh"
cat >"$walk/walk.sh" <<'SHELL'
set -eu
begin=$(date +%s)
step() {
    now=$(date +%s)
    { set +x; } 2>/dev/null
    echo "tutorial: $1: $((now - begin)) s"
    begin=$now
    set -x
}
goes_on() { # PROCESS: fails where it has ended
    { set +x; } 2>/dev/null
    if ! kill -0 "$1" 2>/dev/null; then
        code=0
        wait "$1" || code=$?
        echo "tutorial: the second terminal has ended, with exit code $code" >&2
        exit 1
    fi
    set -x
}
prints() { # PROCESS FILE: waits until it prints a line, and fails where it ends
    { set +x; } 2>/dev/null
    waits=600
    while [ ! -s "$2" ] && kill -0 "$1" 2>/dev/null; do
        if [ $((waits -= 1)) = 0 ]; then
            echo "tutorial: the second terminal printed nothing for a minute" >&2
            exit 1
        fi
        sleep 0.1
    done
    goes_on "$1"
}
# Who is root already needs no sudo.
[ "$(id -u)" != 0 ] || sudo() { "$@"; }
set -x
. target/tutorial/commands.sh
SHELL
trap 'rm -rf mine.toml out/mine; target/quick/watermaster lab down tutorial >/dev/null 2>&1 || true' EXIT
trap 'exit 1' INT TERM
begin=$(date +%s)
sh "$walk/walk.sh"
if [ "$(id -u)" = 0 ]; then
    # Faster than the order allows, held to it, and faster again.
    awk '
        { seen = seen " " $1 }
        $1 > 25 { fast = 1; again = held }
        $1 <= 21 && fast { held = 1 }
        END { if (!again) { print "tutorial: the order never held the flow, or for ever:" seen; exit 1 } }
    ' "$walk/terminal" >&2
fi
echo "tutorial: $(($(date +%s) - begin)) s"
