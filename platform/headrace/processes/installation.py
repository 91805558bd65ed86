"""Checks whether the code on disk is still the code that runs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import headrace
from headrace.core.errors import UserError

_VERSION = re.compile(r'^__version__ = "([^"]+)"', re.MULTILINE)

_IMPORTED = (".py", ".so", ".pth", ".zip", ".dist-info", ".egg-info", ".egg-link")
"""Name endings of an import path entry's files that can be imported, or name a package."""
_ENTRIES_MAX = 256

Fingerprint = tuple[tuple[str, int], ...]
"""(entry, hash of what can be imported from it) of each existing entry of an import path."""


_begins_with_own = not sys.flags.safe_path
"""Whether the import path begins with the folder of the script or the working directory, which Python puts first."""


def import_path() -> list[str]:
    """Returns the import path for other processes: without this process's own entry."""
    return sys.path[1:] if _begins_with_own else list(sys.path)


def set_import_path(path: Sequence[str]) -> None:
    """Sets the import path of a forked process to the `import_path` of its parent."""
    global _begins_with_own  # noqa: PLW0603 - as `sys.path`, of which it is a part
    _begins_with_own = False
    sys.path[:] = path


def fingerprint(path: Sequence[str]) -> Fingerprint:
    """Returns a value that changes when packages are installed or removed in a folder of the path.

    It costs one stat for each entry, and a scan of the folders whose content changed since the last call.
    """
    found = []
    for entry in path:
        with suppress(OSError):
            about = os.stat(entry)  # noqa: PTH116 - a tenth of the cost of a Path, before each fork
            found.append((entry, _importable(entry, about.st_ino, about.st_mtime_ns)))
    return tuple(found)


@lru_cache(maxsize=_ENTRIES_MAX)
def _importable(entry: str, inode: int, modified_ns: int) -> int:
    """Returns a hash of what can be imported from an entry: import paths also contain folders of data and logs.

    inode, modified_ns: of the entry, so that each state of a folder is read once.
    """
    if not os.path.isdir(entry):  # noqa: PTH112 - as above
        return hash((inode, modified_ns))
    with os.scandir(entry) as items:
        return hash(frozenset(_identity(item) for item in items if _is_imported(item)))


def _is_imported(item: os.DirEntry[str]) -> bool:
    return item.name.endswith(_IMPORTED) or Path(item.path, "__init__.py").exists()


def _identity(item: os.DirEntry[str]) -> tuple[str, int, int]:
    about = item.stat(follow_symlinks=False)
    return item.name, about.st_ino, 0 if item.is_dir() else about.st_mtime_ns


def require_running_version(role: str) -> None:
    """Raises UserError if the installed headrace version is not the running one."""
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
