#!/bin/sh
# Follows docs/adding-a-policy.md in a copy of the checkout: writes the files that its code blocks name and runs its
# commands, those marked root only as root. The copy has a target folder of its own: in the checkout's, cargo would take
# what was compiled of the copy for the checkout's.
set -eu
cd "$(dirname "$0")/.."
checks/setup.sh build python
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
# What the page says of the table: the old job's time, and how much later the young one ends.
target/debug/watermaster run elder.toml --world fluid --json | python3 -c '
import json, sys
results = json.load(sys.stdin)["results"]
metrics = next(result for result in results if result["policy"] == "elder")["metrics"]
old, young = metrics["jct_mean_large_s"], 0.1 + metrics["jct_mean_small_s"]
if not (1.65 < old < 1.75 and 0.75 < young - old < 0.9):
    sys.exit(f"docs-check: the old job took {old} s, and the young one ended {young - old} s later")
'
echo "docs-check: $(($(date +%s) - begin)) s"
