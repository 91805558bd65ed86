"""Files and folders that only their owner may read, whatever the process's umask is: what lies below a home.

A user's own output (files of a sink, a savepoint in a folder of his) is written with the umask instead.
"""

from __future__ import annotations

import os
from pathlib import Path

from headrace.core.settings import Home

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
OTHERS = 0o077
"""The permissions of group and others."""


def make_private_folder(folder: Path) -> None:
    """Makes the folder and those above it that are missing, each with mode 0700. One that exists keeps its mode.

    Raises OSError.
    """
    missing = []
    above = folder
    while not above.is_dir():
        missing.append(above)
        above = above.parent
    for each in reversed(missing):
        # another process may make it at the same time
        each.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def private_opener(path: str, flags: int) -> int:
    """An `opener` for `open`: a file that is made gets mode 0600; one that exists keeps its mode."""
    return os.open(path, flags, PRIVATE_FILE)


def is_private(folder: Path) -> bool:
    """Whether files in it are for their owner alone: it lies below this process's home, or no other user may enter it.

    The latter holds for folders of another process's home, which has made them so.
    """
    home = Home.from_environment().root
    if folder.is_relative_to(home) or folder.resolve().is_relative_to(home.resolve()):
        return True
    try:
        return not folder.stat().st_mode & OTHERS
    except OSError:
        return False
