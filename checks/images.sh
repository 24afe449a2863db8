#!/bin/sh
# Whether what packaging/image.sh has made, target/images, are OCI images, made again are the same octets (PROFILE as they
# were made), and as root whether controller and agent start in them as the chart starts them.
set -eu
cd "$(dirname "$0")/.."
images=target/images
again=target/images-again
trap 'rm -rf "$again"' EXIT
trap 'exit 1' INT TERM
IMAGES=$again packaging/image.sh >/dev/null
for name in controller agent; do
    file=watermaster-$name.oci.tar
    cmp "$images/$file" "$again/$file"
    mkdir "$again/$name"
    python3 checks/images.py "$images/$file" "$again/$name"
    if [ "$(id -u)" != 0 ]; then
        echo "images: $file was not started: a root of its own needs root"
        continue
    fi
    umoci raw unpack --image "$again/$name:$(cat "$again/$name/tag")" "$again/$name-root"
    # All that runs in it, and what is mounted, ends with it.
    unshare --mount --pid --net --fork --kill-child checks/images-root.sh "$again/$name-root" "$name"
done
