"""The files whose change starts a pipeline anew: the pipeline file, and the Python files beside and below it.

They are compared by time, size and inode: an editor may write a file in place or replace it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

FILES_MAX = 2_000
"""Most Python files that are watched."""
_LEFT_OUT = {"__pycache__", "node_modules", "site-packages"}

Seen = Mapping[Path, tuple[int, int, int]]
"""File -> (modification time in ns, size, inode)."""


def look(file: Path) -> Seen:
    """Returns what the files are now. A file that is missing, as while an editor replaces it, is left out."""
    seen: dict[Path, tuple[int, int, int]] = {}
    for path in (file, *_modules(file.parent)):
        try:
            stat = path.stat()
        except OSError:
            continue
        seen[path] = stat.st_mtime_ns, stat.st_size, stat.st_ino
    return seen


def changed(before: Seen, after: Seen) -> tuple[Path, ...]:
    """Returns the files that are new, gone or different."""
    return tuple(sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path)))


def _modules(folder: Path) -> Iterator[Path]:
    count = 0
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            # an environment of Python's has thousands of modules that nobody edits
            if name not in _LEFT_OUT and not name.startswith(".") and not (Path(place, name) / "pyvenv.cfg").exists()
        )
        for name in sorted(files):
            if name.endswith(".py"):
                count += 1
                if count > FILES_MAX:
                    return
                yield Path(place, name)
