#!/bin/sh
# The description of the HTTP interface: a published validator accepts it, and a client that a published generator makes
# of it, the test of docs/integrating.md's example too, works against a running controller. The tools go into a virtual
# environment below target/. Needs python3 with venv.
set -eu
cd "$(dirname "$0")/.."
venv=$PWD/target/openapi
tools="openapi-spec-validator==0.9.0 openapi-python-client==0.29.1"
if [ "$(cat "$venv/tools" 2>/dev/null)" != "$tools" ]; then
    python3 -m venv "$venv"
    # shellcheck disable=SC2086 # two words
    "$venv/bin/pip" install --quiet --disable-pip-version-check $tools
    echo "$tools" >"$venv/tools"
fi
"$venv/bin/openapi-spec-validator" live/controller/openapi.json
"$venv/bin/openapi-python-client" generate --path live/controller/openapi.json --meta none --overwrite --fail-on-warning \
    --config checks/openapi-client.yaml --output-path "$venv/client/watermaster_client"
OPENAPI="$venv" checks/matched.sh cargo test --locked --package watermaster --test live integration::
