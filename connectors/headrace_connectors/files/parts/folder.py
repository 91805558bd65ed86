"""The folder of a files sink: creating it, syncing it, listing its hidden files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from headrace.core.errors import ExternalError, UserError
from headrace_connectors.files.parts.part_names import HiddenFile


def make_folder(path: str) -> Path:
    """Creates the folder if necessary, and returns it. Raises UserError if that fails."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as cause:
        raise UserError(f"{path} cannot be a folder: {cause.strerror or cause}", remedy="correct `path:`") from cause
    return folder


def sync(path: Path) -> None:
    """Syncs a file's content, or a folder's entries, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def hidden_files(folder: Path) -> Iterator[tuple[Path, HiddenFile]]:
    """Hidden files of sinks in a folder, in no order; none if the folder does not exist."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - a folder may hold very many files: names are enough
    except FileNotFoundError:
        return
    for name in names:
        if name.startswith(".part-") and (hidden := HiddenFile.parsed(name)) is not None:
            yield folder / name, hidden


def refused_by(folder: Path, sink: str, cause: OSError, *, retry: bool = False) -> ExternalError:
    """The error for a failure of the file system."""
    return ExternalError(
        f"sink {sink!r} cannot write into {folder}: {cause.strerror or cause}",
        remedy="free space, or allow this user to write there",
        retry=retry,
    )
