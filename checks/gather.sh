#!/bin/sh
# The front end of `watermaster gather` under a published client's own tests (pymemcache: its source distribution carries
# them), with every policy, in front of six memcached servers; and where keys go, against libmemcached's and pymemcache's
# own choice. The tools go into a virtual environment below target/. Needs memcached, and python3 with venv.
# WATERMASTER=PROGRAM tests that instead of a build.
set -eu
cd "$(dirname "$0")/.."
checks/setup.sh memcached python venv
if [ -z "${WATERMASTER:-}" ]; then
    cargo build --profile quick --locked --package watermaster
    WATERMASTER=${CARGO_TARGET_DIR:-target}/quick/watermaster
fi
venv=$PWD/target/gather
tools="pymemcache==4.0.0 pylibmc==1.6.3 pytest==8.4.2"
if [ "$(cat "$venv/tools" 2>/dev/null)" != "$tools" ]; then
    python3 -m venv "$venv"
    # shellcheck disable=SC2086 # several words
    "$venv/bin/pip" install --quiet --disable-pip-version-check $tools
    "$venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary :all: \
        --dest "$venv/source" "${tools%% *}"
    tar -xzf "$venv"/source/pymemcache-*.tar.gz -C "$venv/source"
    echo "$tools" >"$venv/tools"
fi
exec "$venv/bin/python" checks/gather.py "$WATERMASTER" "$venv"/source/pymemcache-*/
