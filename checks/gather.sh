#!/bin/sh
# The front end of `watermaster gather` under the own tests of two published clients, with every policy, in front of six
# memcached servers: pymemcache, whose source distribution carries them, and gomemcache (Go); and where keys go, against
# libmemcached's and pymemcache's own choice. The tools go below target/. Needs memcached, Go, and python3 with venv.
# WATERMASTER=PROGRAM tests that instead of a build.
set -eu
cd "$(dirname "$0")/.."
checks/setup.sh memcached python venv go
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
go=github.com/bradfitz/gomemcache@v0.0.0-20260422231931-4d751bb6e37c
if [ "$(cat "$venv/go" 2>/dev/null)" != "$go" ]; then
    rm -rf "$venv/gomemcache"
    mkdir "$venv/gomemcache"
    (cd "$venv/gomemcache" && go mod init gather 2>/dev/null && go mod download "$go")
    cp -r "$(go env GOMODCACHE)/$go/." "$venv/gomemcache"
    chmod -R u+w "$venv/gomemcache"
    # Its tests have one address.
    sed -i 's/^const localhostTCPAddr = .*/var localhostTCPAddr = os.Getenv("MEMCACHED")/' \
        "$venv/gomemcache/memcache/memcache_test.go"
    (cd "$venv/gomemcache" && go test -c -o "$venv/gomemcache.test" ./memcache)
    echo "$go" >"$venv/go"
fi
exec "$venv/bin/python" checks/gather.py "$WATERMASTER" "$venv"/source/pymemcache-*/ "$venv/gomemcache.test"
