"""Publishes staged files under their final names: without replacing a file, and repeatable after a crash at any point.

    staged ──one step (`final_names`)──> published ──fsync of the folder──> durable

A second call continues from the state in which the first one ended. A file that is neither staged nor published is
gone: a reader has taken it away, or it was lost (`CommittedEpochs` of the committer distinguishes them).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from headrace.core.errors import ExternalError
from headrace_connectors.files.parts.final_names import give_name
from headrace_connectors.files.parts.folder import sync
from headrace_connectors.files.parts.part_files import CHECKSUM_BYTES


class Standing(Enum):
    """The state of a file."""

    STAGED = "staged"
    PUBLISHED = "published"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A complete file in the sink's folder, as in a committable.

    staged, final   its names before and after
    bytes, checksum size and BLAKE2b checksum in hex
    """

    staged: str
    final: str
    bytes: int
    checksum: str

    def document(self) -> dict[str, Any]:
        """The file as plain JSON values."""
        return asdict(self)

    def standing(self, folder: Path) -> Standing:
        """The file's state. Raises ExternalError if another file has its final name, OSError if the file system
        fails."""
        staged, final = folder / self.staged, folder / self.final
        size = _size(staged)
        if size is None:
            if _size(final) is None:
                return Standing.GONE
            if not self._is_content_of(final):
                raise _taken(final)
            return Standing.PUBLISHED
        if size != self.bytes:
            raise ExternalError(
                f"{staged} has {size} bytes where its writer left {self.bytes}: somebody has changed it",
                remedy="let nothing else touch the hidden files of the folder",
            )
        if _size(final) is not None and not staged.samefile(final) and not self._is_content_of(final):
            raise _taken(final)
        return Standing.STAGED

    def _is_content_of(self, path: Path) -> bool:
        if _size(path) != self.bytes:
            return False
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=CHECKSUM_BYTES))
        return digest.hexdigest() == self.checksum


def publish(folder: Path, files: Sequence[StagedFile]) -> None:
    """Publishes the staged files; published ones stay unchanged, and those that are gone stay gone.

    Raises ExternalError if another file has the name, OSError if the file system fails.
    """
    staged = [file for file in files if file.standing(folder) is Standing.STAGED]
    for file in staged:
        try:
            give_name(folder / file.staged, folder / file.final)
        except FileNotFoundError:
            # published by another committer meanwhile
            continue
        except FileExistsError:
            # a copy of this file, or another one that has just appeared: `standing` raises for that
            file.standing(folder)
            (folder / file.staged).unlink(missing_ok=True)
    if staged:
        sync(folder)


def _size(path: Path) -> int | None:
    """Size of a file in bytes; None if it does not exist."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _taken(path: Path) -> ExternalError:
    return ExternalError(
        f"{path} is not a file of this sink, and stands where its output belongs",
        remedy="move that file away, then start the job again: it goes on from here",
    )
