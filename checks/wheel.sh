#!/bin/sh
# Builds the Python wheel, which carries the command too, into target/wheels (PROFILE=release, or quick), and tries it in
# a fresh virtual environment: its tests, its types, and the notebooks of the gallery. Needs python3 with venv.
set -eu
cd "$(dirname "$0")/.."
profile=${PROFILE:-release}
target=${CARGO_TARGET_DIR:-$PWD/target}
tools=$target/wheel-tools
pins="maturin==1.16.0"
if [ "$(cat "$tools/pins" 2>/dev/null)" != "$pins" ]; then
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check "$pins"
    echo "$pins" >"$tools/pins"
fi
cargo build --profile "$profile" --locked --package watermaster
mkdir -p python/wheel/scripts
# In the wheel it needs no table of lines.
strip -o python/wheel/scripts/watermaster "$target/$profile/watermaster"
rm -rf "$target/wheels"
"$tools/bin/maturin" build --quiet --profile "$profile" --locked --auditwheel skip --compatibility linux \
    --manifest-path python/Cargo.toml --out "$target/wheels"
wheel=$(ls "$target"/wheels/watermaster-*.whl)

tries=$target/wheel-tests
pins="mypy==2.4.1 nbclient==0.11.0 ipykernel==7.4.0 matplotlib==3.11.2 pandas==3.1.1 polars==2.1.0 pyarrow==26.0.1 pytest==9.2.0 ray==2.60.0"
if [ "$(cat "$tries/pins" 2>/dev/null)" != "$pins" ]; then
    rm -rf "$tries"
    python3 -m venv "$tries"
    # shellcheck disable=SC2086 # words
    "$tries/bin/pip" install --quiet --disable-pip-version-check $pins
    echo "$pins" >"$tries/pins"
fi
"$tries/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "$wheel"
"$tries/bin/watermaster" --version
"$tries/bin/pytest" -q python/tests
"$tries/bin/mypy" --strict python/tests/typed.py
# A machine that is killed says much: what was found comes last.
"$tries/bin/python" python/tests/cluster.py "${CELLS:-200}" >"$tries/cluster" 2>&1 || { tail "$tries/cluster" && exit 1; }
tail -n 6 "$tries/cluster"
"$tries/bin/python" python/tests/notebooks.py python/gallery/*.ipynb
"$tries/bin/python" python/gallery/cost.py
echo "wheel: $wheel, $(du -h "$wheel" | cut -f1)"
