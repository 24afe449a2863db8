#!/bin/sh
# Lists what is delivered by SHA-256 and signs the list with your own key, which GnuPG or its agent has: SHA256SUMS and
# SHA256SUMS.asc in each folder. Usage: packaging/sign.sh KEY [FOLDER…], KEY as `gpg --local-user` takes it.
set -eu
if [ $# = 0 ]; then
    echo "sign: name your key, as gpg --list-secret-keys shows it: make sign KEY=FINGERPRINT" >&2
    exit 2
fi
key=$1
shift
[ $# != 0 ] || set -- target/deb target/wheels
for folder; do
    for file in "$folder"/*.deb "$folder"/*.whl "$folder"/*.cdx.json "$folder"/*.oci.tar; do
        [ ! -e "$file" ] || basename "$file"
    done >"$folder/SHA256SUMS.new"
    if [ ! -s "$folder/SHA256SUMS.new" ]; then
        rm "$folder/SHA256SUMS.new"
        echo "sign: $folder has nothing to deliver; run make deb, make wheel" >&2
        exit 1
    fi
    # Names have neither spaces nor line ends: cargo-deb, maturin and image.sh make them.
    (cd "$folder" && xargs sha256sum <SHA256SUMS.new >SHA256SUMS && rm SHA256SUMS.new)
    gpg --quiet --yes --local-user "$key" --armor --detach-sign --output "$folder/SHA256SUMS.asc" "$folder/SHA256SUMS"
    echo "sign: $folder/SHA256SUMS.asc"
done
