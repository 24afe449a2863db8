#!/bin/sh
# Follows docs/adding-a-policy.md in a copy of the checkout: writes the files that its code blocks name and runs its
# commands, those marked root only as root. The copy has a target folder of its own: in the checkout's, cargo would take
# what was compiled of the copy for the checkout's.
set -eu
cd "$(dirname "$0")/.."
checks/setup.sh build
[ "$(id -u)" != 0 ] || checks/setup.sh lab
copy=${CARGO_TARGET_DIR:-$PWD/target}/adding-a-policy
mkdir -p "$copy"
find "$copy" -mindepth 1 -maxdepth 1 ! -name target -exec rm -rf {} +
# Files keep their times, so that what an earlier copy compiled serves again.
git ls-files -z --cached --others --exclude-standard |
    tar --null --files-from - --ignore-failed-read -cf - | tar -xf - -C "$copy"
# What is compiled of others is the same in both.
if [ ! -d "$copy/target" ] && [ -d "$copy/../debug/deps" ]; then
    mkdir -p "$copy/target/debug"
    for part in deps build .fingerprint; do cp -al "$copy/../debug/$part" "$copy/target/debug"; done
    (cd "$copy" && CARGO_TARGET_DIR=$PWD/target cargo clean --workspace --quiet)
fi
cd "$copy"
CARGO_TARGET_DIR=$PWD/target
export CARGO_TARGET_DIR
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
