"""Small files that are replaced whole: a reader sees the old text or the new text, never a part of one."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

_WRITES = itertools.count()
"""Two threads may replace one file at the same time: each has a temporary file of its own."""


def replace_file(path: Path, data: bytes, *, mode: int = 0o666, durable: bool = False) -> None:
    """Replaces the file, or creates it in an existing folder. Raises OSError.

    mode      permissions, before the process's umask
    durable   the file survives a power loss once this returns
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.{next(_WRITES)}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        if durable:
            # syncs the content before the rename: otherwise a power loss could leave an empty file under the name
            file.flush()
            os.fsync(file.fileno())
    part.replace(path)
    if durable:
        _sync(path.parent)


def remove_file(path: Path) -> None:
    """Deletes the file if it exists, in an existing folder. The deletion is durable when this returns. Raises
    OSError."""
    path.unlink(missing_ok=True)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
