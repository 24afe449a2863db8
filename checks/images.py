#!/usr/bin/env python3
"""Whether a file is an OCI image layout that says what is in it: digests, sizes, media types, the configuration and
the layer. Unpacks it into FOLDER, for umoci.

Usage: images.py FILE.oci.tar FOLDER
"""

import gzip
import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path

OCI = "application/vnd.oci.image."


def check(condition, said):
    if not condition:
        sys.exit(f"images: {sys.argv[1]}: {said}")


def main():
    archive, folder = sys.argv[1:]
    with tarfile.open(archive) as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
    for name, octets in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(octets)
    check(json.loads(files.pop("oci-layout")) == {"imageLayoutVersion": "1.0.0"}, "oci-layout names no version 1.0.0")
    index = json.loads(files.pop("index.json"))
    check(index["schemaVersion"] == 2 and index["mediaType"] == OCI + "index.v1+json", "index.json is no index")
    check(len(index["manifests"]) == 1, "index.json leads to more or less than one image")

    def blob(reference, kind):
        """What a reference leads to."""
        check(reference["mediaType"] == OCI + kind, f"{reference['mediaType']} stands where {kind} should")
        octets = files.pop("blobs/" + reference["digest"].replace(":", "/"), None)
        check(octets is not None, f"{reference['digest']} is missing")
        check("sha256:" + hashlib.sha256(octets).hexdigest() == reference["digest"], f"{reference['digest']} is another")
        check(len(octets) == reference["size"], f"{reference['digest']} has {len(octets)} octets")
        return octets

    [reference] = index["manifests"]
    manifest = json.loads(blob(reference, "manifest.v1+json"))
    check(manifest["schemaVersion"] == 2 and manifest["mediaType"] == reference["mediaType"], "no manifest")
    config = json.loads(blob(manifest["config"], "config.v1+json"))
    layers = [gzip.decompress(blob(layer, "layer.v1.tar+gzip")) for layer in manifest["layers"]]
    check(not files, f"nothing leads to {', '.join(files)}")
    platform = {key: config[key] for key in ("architecture", "os")}
    check(reference["platform"] == platform and platform["os"] == "linux", "platforms differ")
    digests = ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]
    check(config["rootfs"] == {"type": "layers", "diff_ids": digests}, "diff_ids are not of its layers")

    with tarfile.open(fileobj=io.BytesIO(layers[0])) as tar:
        members = {member.name.removeprefix("./"): member for member in tar}
    check(len(layers) == 1, "it has more than one layer")
    check(len({member.mtime for member in members.values()}) == 1, "times differ")
    raised = [name for name, member in members.items() if member.isfile() and member.mode & 0o6000]
    check(not raised, f"{raised} run as another user")
    owned = {name: member.uid for name, member in members.items() if member.uid}
    check(owned == {"run/watermaster-controller": 10001, "var/lib/watermaster": 10001}, f"owners are {owned}")
    runs = config["config"]
    [program] = runs["Entrypoint"]
    check(members[program.lstrip("/")].mode & 0o111, f"{program} is no program")
    agents = "agent" in archive.rsplit("/", 1)[-1]
    check(runs["User"] == ("0:0" if agents else "10001:10001"), f"it runs as {runs['User']}")
    check(runs["Cmd"][0] == ("agent" if agents else "controller"), f"it runs {runs['Cmd']}")
    with open(f"{folder}/tag", "w") as tag:
        tag.write(reference["annotations"]["org.opencontainers.image.ref.name"])
    print(f"images: {archive}: {len(members)} files, {len(layers[0]) >> 20} MiB, {runs['Entrypoint'] + runs['Cmd']}")


main()
