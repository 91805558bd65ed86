"""Images as archives that containerd imports: made here, of one layer, without a registry."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

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
    write_image(archive, PAUSE_IMAGE, [layer], {"Entrypoint": ["/pause"]})


def write_machine_image(archive: Path) -> None:
    """Writes the image that is the shape of this machine's root."""
    write_image(archive, MACHINE_IMAGE, [io.BytesIO(machine_root())], {})


def write_image(archive: Path, name: str, layers: Sequence[IO[bytes]], settings: Mapping[str, object]) -> None:
    """Writes an archive in the format of `docker save`. layers: tar files, the lowest first."""
    machine = platform.machine()
    config = {
        "architecture": _ARCHITECTURES.get(machine, machine),
        "os": "linux",
        "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"], **settings},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(layer)}" for layer in layers]},
        "history": [{"created_by": "tests"} for _ in layers],
    }
    names = [f"layer{number}.tar" for number in range(len(layers))]
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": names}]
    documents = {"config.json": config, "manifest.json": manifest}
    parts = [
        *((part, io.BytesIO(json.dumps(document).encode())) for part, document in documents.items()),
        *zip(names, layers, strict=True),
    ]
    with tarfile.open(archive, "w") as tar:
        for part, content in parts:
            entry = tarfile.TarInfo(part)
            entry.size = content.seek(0, io.SEEK_END)
            content.seek(0)
            tar.addfile(entry, content)


def _digest(layer: IO[bytes]) -> str:
    layer.seek(0)
    return hashlib.file_digest(layer, "sha256").hexdigest()  # type: ignore[arg-type]  # any file that can be read
