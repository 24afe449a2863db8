#!/bin/sh
# Follows docs/adding-a-policy.md in a copy of the checkout: writes the files that its code blocks name and runs its
# commands, those marked root only as root. The copy has the checkout's target folder, whose dependencies are compiled.
set -eu
cd "$(dirname "$0")/.."
checks/setup.sh build
[ "$(id -u)" != 0 ] || checks/setup.sh lab
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
export CARGO_TARGET_DIR
copy=$CARGO_TARGET_DIR/adding-a-policy
rm -rf "$copy"
mkdir -p "$copy"
# Files keep their times, so that what an earlier copy compiled serves again.
git ls-files -z --cached --others --exclude-standard |
    tar --null --files-from - --ignore-failed-read -cf - | tar -xf - -C "$copy"
cd "$copy"
# Commands find the program where the page says it is.
ln -s "$CARGO_TARGET_DIR" target
awk '
    function finish() {
        if (root) print "else echo \"docs-check: skipped, it needs root\"; fi"
        file = ""; shell = 0; root = 0; inside = 0
    }
    /^```/ && inside { finish(); next }
    /^```/ {
        inside = 1
        shell = ($1 == "```sh")
        root = (shell && $2 == "root")
        if (root) print "if [ \"$(id -u)\" = 0 ]; then"
        if (!shell) file = $2
        next
    }
    shell
    file != "" { print > file }
' docs/adding-a-policy.md >commands.sh
begin=$(date +%s)
sh -eux commands.sh
echo "docs-check: $(($(date +%s) - begin)) s"
