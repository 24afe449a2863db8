#!/bin/sh
# Whether what packaging/sign.sh signs is verified, and what was changed refused, by the commands that docs/security.md
# tells users: its block marked `verify`. The key is made for this and thrown away.
set -eu
cd "$(dirname "$0")/.."
home=$(mktemp -d)
GNUPGHOME=$home/keys
export GNUPGHOME
trap 'gpgconf --kill all; rm -rf "$home"' EXIT
trap 'exit 1' INT TERM
mkdir -m 700 "$GNUPGHOME"
awk '/^```sh verify$/ { inside = 1; next } /^```$/ { inside = 0 } inside' docs/security.md >"$home/verify.sh"
[ -s "$home/verify.sh" ] || { echo "signing: docs/security.md has no block marked verify" >&2 && exit 1; }
for who in releaser somebody; do
    gpg --quiet --batch --passphrase '' --quick-generate-key "$who" ed25519 sign never 2>/dev/null
done

packaging/sbom.sh "$home/watermaster.cdx.json"
delivered="watermaster_1_amd64.deb watermaster-1-cp311-abi3-linux_x86_64.whl watermaster.cdx.json"
# What a user has: the releaser's key, files and their list.
fresh() {
    rm -rf "$home/delivered"
    mkdir "$home/delivered"
    gpg --quiet --export releaser >"$home/delivered/releaser.gpg"
    for name in $delivered; do
        # What stands in packages doesn't matter here.
        cp "$home/$name" "$home/delivered/" 2>/dev/null || head -c 100000 /dev/urandom >"$home/delivered/$name"
    done
    packaging/sign.sh releaser "$home/delivered" >/dev/null
}
verifies() {
    (cd "$home/delivered" && sh -eu "$home/verify.sh") >"$home/said" 2>&1
}
refused() { # WHAT
    if verifies; then
        echo "signing: $1 is taken" >&2
        exit 1
    fi
    echo "signing: $1 is refused: $(grep -iE 'failed|bad|no public key|can.t|no such' "$home/said" | head -n 1)"
}

fresh
verifies || { cat "$home/said" >&2 && echo "signing: what is as it was signed is refused" >&2 && exit 1; }
[ "$(grep -c ': OK$' "$home/said")" = 3 ] || { echo "signing: files are not looked at" >&2 && exit 1; }
flip() { # FILE: one bit of its last octet
    python3 -c 'import sys; f = open(sys.argv[1], "r+b"); f.seek(-1, 2); last = f.read()[0]; f.seek(-1, 2); f.write(bytes([last ^ 1]))' "$1"
}
for changed in $delivered; do
    fresh
    flip "$home/delivered/$changed"
    refused "a changed $changed"
done
(cd "$home/delivered" && sha256sum -- *.deb *.whl *.json >SHA256SUMS)
refused "a changed file with its list made anew"
packaging/sign.sh somebody "$home/delivered" >/dev/null
refused "a list that somebody else signed"
fresh
rm "$home/delivered/SHA256SUMS.asc"
refused "a list without a signature"
echo "signing: well"
