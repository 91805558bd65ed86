"""The folder that a files sink writes into: making it, putting it on disk, looking for hidden files in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from headrace.core.errors import ExternalError, UserError
from headrace_connectors.files.parts.part_names import HiddenFile


def make_folder(path: str) -> Path:
    """The folder, made where there is none. Raises UserError where that is not possible."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as cause:
        raise UserError(f"{path} cannot be a folder: {cause.strerror or cause}", remedy="correct `path:`") from cause
    return folder


def sync(path: Path) -> None:
    """Puts a file's content, or a folder's names, on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def hidden_files(folder: Path) -> Iterator[tuple[Path, HiddenFile]]:
    """Hidden files of sinks in a folder, in no order; none where there is no folder."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - a folder may hold very many files: names are enough
    except FileNotFoundError:
        return
    for name in names:
        if name.startswith(".part-") and (hidden := HiddenFile.parsed(name)) is not None:
            yield folder / name, hidden


def refused_by(folder: Path, sink: str, cause: OSError, *, retry: bool = False) -> ExternalError:
    """What to raise where the file system refuses."""
    return ExternalError(
        f"sink {sink!r} cannot write into {folder}: {cause.strerror or cause}",
        remedy="free space, or allow this user to write there",
        retry=retry,
    )
