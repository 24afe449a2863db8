#!/bin/sh
# Lists what the program is made of, as CycloneDX (JSON): every crate that is linked into it or builds it, with version,
# licence and hash. Usage: packaging/sbom.sh FILE
set -eu
file=$(realpath -m "$1")
cd "$(dirname "$0")/.."
command -v cargo-cyclonedx >/dev/null || cargo install --locked cargo-cyclonedx@0.5.9
# It writes one beside the manifest of each crate of the workspace.
cargo cyclonedx -qq --manifest-path cli/Cargo.toml --format json --spec-version 1.5
made=$(mktemp)
mv cli/watermaster.cdx.json "$made"
git ls-files '*Cargo.toml' | while read -r manifest; do
    rm -f "$(dirname "$manifest")"/watermaster*.cdx.json
done
mv "$made" "$file"
# What cargo links is in it.
cargo tree --locked --package watermaster --edges normal --prefix none --format '{p}' | python3 -c '
import json, sys
bill = json.load(open(sys.argv[1]))
listed = {(own["name"], own["version"]) for own in [bill["metadata"]["component"], *bill["components"]]}
words = [line.split() for line in sys.stdin if line.strip()]
linked = {(name, version.removeprefix("v")) for name, version, *_ in words}
missing = ", ".join(" ".join(crate) for crate in sorted(linked - listed))
if missing:
    sys.exit(f"sbom: {sys.argv[1]} lacks {missing}, which cargo tree has")
if not linked:
    sys.exit("sbom: cargo tree says nothing")
print(f"sbom: {sys.argv[1]}, with {len(linked)} crates that are linked")
' "$file"
