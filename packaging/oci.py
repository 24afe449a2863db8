"""Lays out an image of the layer FOLDER/layer.tar in FOLDER/NAME, as the OCI's image-layout.md says: blobs that are
called by their SHA-256, index.json that leads to them, oci-layout.

Usage: oci.py FOLDER NAME VERSION ARCHITECTURE
"""

import hashlib
import json
import os
import sys
from datetime import datetime, timezone
from pathlib import Path

OCI = "application/vnd.oci.image."
# The chart, packaging/Containerfile and checks/images.py have the same.
RUNS = {
    "controller": {
        "User": "10001:10001",
        "Cmd": ["controller", "--config", "/etc/watermaster/controller.toml"],
        "ExposedPorts": {"6654/tcp": {}, "7443/tcp": {}},
    },
    "agent": {"User": "0:0", "Cmd": ["agent", "--config", "/etc/watermaster/agent.toml"]},
}


def main():
    folder, name, version, architecture = sys.argv[1:]
    folder = Path(folder)
    blobs = folder / name / "blobs/sha256"
    blobs.mkdir(parents=True)

    def blob(kind, octets):
        """Keeps the octets; how others refer to them."""
        digest = hashlib.sha256(octets).hexdigest()
        (blobs / digest).write_bytes(octets)
        return {"mediaType": OCI + kind, "digest": f"sha256:{digest}", "size": len(octets)}

    def text(value):
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    made = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    about = {
        "org.opencontainers.image.title": f"watermaster-{name}",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.created": made,
    }
    unpacked = hashlib.sha256((folder / "layer.tar").read_bytes()).hexdigest()
    config = {
        "created": made,
        "architecture": architecture,
        "os": "linux",
        "config": {
            **RUNS[name],
            "Entrypoint": ["/usr/bin/watermaster"],
            "Env": ["PATH=/usr/sbin:/usr/bin"],
            "WorkingDir": "/",
            "StopSignal": "SIGTERM",
            "Labels": about,
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{unpacked}"]},
        "history": [{"created": made, "created_by": "packaging/image.sh"}],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": OCI + "manifest.v1+json",
        "config": blob("config.v1+json", text(config)),
        "layers": [blob("layer.v1.tar+gzip", (folder / "layer.tar.gz").read_bytes())],
        "annotations": about,
    }
    reference = blob("manifest.v1+json", text(manifest))
    reference["platform"] = {"architecture": architecture, "os": "linux"}
    reference["annotations"] = {
        "org.opencontainers.image.ref.name": version,
        # What containerd calls it as it imports it.
        "io.containerd.image.name": f"localhost/watermaster-{name}:{version}",
    }
    index = {"schemaVersion": 2, "mediaType": OCI + "index.v1+json", "manifests": [reference]}
    (folder / name / "index.json").write_bytes(text(index))
    (folder / name / "oci-layout").write_bytes(text({"imageLayoutVersion": "1.0.0"}))


main()
