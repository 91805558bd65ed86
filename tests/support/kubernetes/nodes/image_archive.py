"""Images as archives that containerd imports: made here, of one layer, without a registry."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Sequence
from pathlib import Path

from support.machine_root import machine_root

PAUSE_IMAGE = "headrace/pause:1"
MACHINE_IMAGE = "headrace/machine:1"
"""Of pods that run programs of this machine, which are mounted: `machine_pod`."""
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_pause_image(pause: Path, archive: Path) -> None:
    """Writes the image of the first process of each pod."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        entry = tarfile.TarInfo("pause")
        entry.size, entry.mode = pause.stat().st_size, 0o755
        with pause.open("rb") as program:
            tar.addfile(entry, program)
    _write(archive, PAUSE_IMAGE, layer.getvalue(), ["/pause"])


def write_machine_image(archive: Path) -> None:
    """Writes the image that is the shape of this machine's root."""
    _write(archive, MACHINE_IMAGE, machine_root(), [])


def _write(archive: Path, name: str, layer: bytes, entrypoint: Sequence[str]) -> None:
    """Writes an archive in the format of `docker save`."""
    machine = platform.machine()
    config = {
        "architecture": _ARCHITECTURES.get(machine, machine),
        "os": "linux",
        "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"], "Entrypoint": list(entrypoint)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created_by": "tests"}],
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    parts = {
        "config.json": json.dumps(config).encode(),
        "manifest.json": json.dumps(manifest).encode(),
        "layer.tar": layer,
    }
    with tarfile.open(archive, "w") as tar:
        for part, content in parts.items():
            entry = tarfile.TarInfo(part)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
