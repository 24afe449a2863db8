#!/bin/sh
# Bills of materials (CycloneDX, JSON) of the program and of the Python package's library, into target/sbom: every crate that
# is compiled into them, with version, licence and checksum, and none that only tests need. The same commit gives the same
# octets.
set -eu
cd "$(dirname "$0")/.."
command -v cargo-cyclonedx >/dev/null || cargo install --locked cargo-cyclonedx@0.5.9
host=$(rustc -vV | sed -n 's/^host: //p')
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
out=$PWD/target/sbom
rm -rf "$out"
mkdir -p "$out"
# It writes one beside each manifest of the workspace.
trap 'git ls-files -z --others -- "*/sbom-$$*.json" "sbom-$$*.json" | xargs -0r rm' EXIT
trap 'exit 1' INT TERM
for made in cli/watermaster python/watermaster-python; do
    folder=${made%/*}
    cargo cyclonedx --quiet --manifest-path "$folder/Cargo.toml" --format json --spec-version 1.5 --target "$host" \
        --override-filename "sbom-$$"
    # Where it was made is nobody's business.
    sed "s|$PWD|.|g" "$folder/sbom-$$.json" >"$out/${made#*/}.cdx.json"
done
python3 - "$out/watermaster.cdx.json" watermaster "$out/watermaster-python.cdx.json" watermaster-python "$host" <<'PYTHON'
import json, subprocess, sys

host = sys.argv[5]
for file, package in [sys.argv[1:3], sys.argv[3:5]]:
    bill = json.load(open(file))
    listed = {(one["name"], one["version"]) for one in bill["components"]}
    tree = ["cargo", "tree", "--locked", "--package", package, "--edges", "normal,build", "--target", host]
    said = subprocess.run([*tree, "--prefix", "none", "--format", "{p}"], check=True, capture_output=True, text=True)
    lines = {tuple(line.split()[:2]) for line in said.stdout.splitlines() if line}
    wanted = {(name, version.removeprefix("v")) for name, version in lines} - {(package, bill["metadata"]["component"]["version"])}
    if listed != wanted:
        sys.exit(f"sbom: {file} lacks {sorted(wanted - listed)} and has {sorted(listed - wanted)} too many")
    print(f"sbom: {file}: {len(listed)} crates, as cargo compiles them")
PYTHON
