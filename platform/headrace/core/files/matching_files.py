"""The files that a path or pattern names."""

from __future__ import annotations

import glob
from pathlib import Path


def matching_files(pattern: str) -> list[Path]:
    """The file of this name; if there is none, the files that the glob matches, sorted by name.

    Folders at the pattern's begin that exist are those folders, whatever characters their names have.
    """
    if Path(pattern).is_file():
        return [Path(pattern)]
    found = glob.glob(_with_folders_as_named(pattern), recursive=True)  # noqa: PTH207 - Path.glob takes no absolute patterns
    return sorted(path for name in found if (path := Path(name)).is_file())


def has_pattern(path: str) -> bool:
    """Whether a path has characters of patterns."""
    return glob.has_magic(path)


def _with_folders_as_named(pattern: str) -> str:
    begin, rest = "", pattern
    while "/" in rest:
        name, _, behind = rest.partition("/")
        if not Path(f"{begin}{name}/").is_dir():
            break
        begin, rest = f"{begin}{name}/", behind
    return glob.escape(begin) + rest
