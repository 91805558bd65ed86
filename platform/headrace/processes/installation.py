"""Whether the code on disk is still the code that runs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import headrace
from headrace.core.errors import UserError

_VERSION = re.compile(r'^__version__ = "([^"]+)"', re.MULTILINE)

Fingerprint = tuple[tuple[str, int, int], ...]
"""(entry, inode, modification time in ns) of each entry of an import path that exists."""


def import_path() -> list[str]:
    """The import path without the folder of the script or the working directory, which Python puts first."""
    return list(sys.path) if sys.flags.safe_path else sys.path[1:]


def fingerprint(path: Sequence[str]) -> Fingerprint:
    """Changes when packages are installed or removed in a folder of the path: one stat an entry."""
    found = []
    for entry in path:
        with suppress(OSError):
            about = os.stat(entry)  # noqa: PTH116 - a tenth of the cost of a Path, before each fork
            found.append((entry, about.st_ino, about.st_mtime_ns))
    return tuple(found)


def require_running_version(role: str) -> None:
    """Raises UserError where another version of headrace is installed than the one that runs."""
    installed = _installed_version()
    if installed is not None and installed != headrace.__version__:
        raise UserError(
            f"headrace {installed} is installed now, and this process runs {headrace.__version__}: {role} not started",
            remedy="restart the worker or coordinator, so that all of its processes run the same version",
        )


def _installed_version() -> str | None:
    try:
        text = Path(headrace.__file__).read_text()
    except OSError:
        return None
    match = _VERSION.search(text)
    return None if match is None else match[1]
