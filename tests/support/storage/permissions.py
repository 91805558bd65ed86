"""Which files of a home others may read: none may."""

from __future__ import annotations

import os
import stat
from pathlib import Path

OTHERS = 0o077


def open_to_others(home: Path) -> list[str]:
    """The home and whatever lies below it that has a permission for group or others, with its mode."""
    found = []
    # not `rglob`: it fails where a folder has just been removed
    below = [Path(folder, name) for folder, folders, files in os.walk(home) for name in (*folders, *files)]
    for path in [home, *below]:
        try:
            mode = stat.S_IMODE(path.lstat().st_mode)
        except FileNotFoundError:
            continue  # it has just been removed
        if mode & OTHERS and not path.is_symlink():
            found.append(f"{mode:o} {path.relative_to(home.parent)}")
    return found


def mode_of(path: Path) -> int:
    """Its permissions."""
    return stat.S_IMODE(path.stat().st_mode)
