#!/bin/sh
# Builds the Debian packages into target/deb (PROFILE=release, or quick), has lintian look at them, and lists what the
# program is made of, watermaster.cdx.json. As root it then tries them in a fresh root of each of SUITES (bookworm and
# trixie): they install, controller and agent run and govern a flow, a next version keeps their configuration, and purged
# they leave nothing.
set -eu
cd "$(dirname "$0")/.."
profile=${PROFILE:-release}
target=${CARGO_TARGET_DIR:-$PWD/target}
deb=$PWD/target/deb
command -v cargo-deb >/dev/null || cargo install --locked cargo-deb@3.8.0
cargo build --profile "$profile" --locked --package watermaster
rm -rf "$deb"
mkdir -p "$deb/man" "$deb/completions"
strip -o "$deb/watermaster" "$target/$profile/watermaster"
"$deb/watermaster" man "$deb/man"
"$deb/watermaster" completions bash >"$deb/completions/watermaster"
"$deb/watermaster" completions zsh >"$deb/completions/_watermaster"
"$deb/watermaster" completions fish >"$deb/completions/watermaster.fish"
for variant in "" --variant=controller --variant=agent; do
    # shellcheck disable=SC2086 # none, or one word
    cargo deb --quiet --no-build --package watermaster --profile "$profile" $variant --output "$deb/" >/dev/null
done
lintian --fail-on error,warning "$deb"/*.deb
packaging/sbom.sh "$deb/watermaster.cdx.json"
ls -l "$deb"/*.deb
if [ "$(id -u)" != 0 ]; then
    echo "deb: the packages were not installed: a fresh root needs root"
    exit 0
fi
for suite in ${SUITES:-bookworm trixie}; do
    checks/debian-root.sh "$suite" "$deb/$suite" systemd,adduser checks/deb-root.sh
    echo "deb: $suite is well"
done
