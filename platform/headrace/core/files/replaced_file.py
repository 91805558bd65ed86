"""Small files that are replaced whole: a reader sees the text before or the text after, never a part of one."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, data: bytes, *, mode: int = 0o666, durable: bool = False) -> None:
    """Replaces the file, or makes it, in a folder that is there. Raises OSError.

    mode      permissions, less the process's mask
    durable   it is on disk when this returns: it outlives a power cut
    """
    part = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    part.replace(path)
    if durable:
        _sync(path.parent)


def remove_file(path: Path) -> None:
    """Deletes the file if it is there, in a folder that is: durably when this returns. Raises OSError."""
    path.unlink(missing_ok=True)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
