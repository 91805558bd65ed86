"""Files of a home: private to their owner, whatever the process's umask is, and small ones that are replaced
whole: a reader sees the old text or the new text, never a part of one.

A user's own output (files of a sink, a savepoint in a user's folder) is written with the umask instead.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from headrace.core.settings import Home

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
OTHERS = 0o077
"""The permissions of group and others."""


def make_private_folder(folder: Path) -> None:
    """Creates the folder and its missing parents, each with mode 0700. An existing folder keeps its mode. Raises
    OSError."""
    missing = []
    above = folder
    while not above.is_dir():
        missing.append(above)
        above = above.parent
    for each in reversed(missing):
        # another process may create it at the same time
        each.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def private_opener(path: str, flags: int) -> int:
    """An `opener` for `open`: a new file gets mode 0600; an existing one keeps its mode."""
    return os.open(path, flags, PRIVATE_FILE)


def is_private(folder: Path) -> bool:
    """Whether files in the folder are for their owner alone: it lies below this process's home, or no other user may
    enter it.

    The second case covers the home of another process, which created its folders with mode 0700.
    """
    home = Home.from_environment().root
    if folder.is_relative_to(home) or folder.resolve().is_relative_to(home.resolve()):
        return True
    try:
        return not folder.stat().st_mode & OTHERS
    except OSError:
        return False


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
