"""Files and folders that only their owner may read, whatever the process's umask is: the content of a home.

A user's own output (files of a sink, a savepoint in a user's folder) is written with the umask instead.
"""

from __future__ import annotations

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
