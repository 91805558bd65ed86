"""Giving staged files their names: without replacing anything, and so that it may be done again after a crash at any
point.

    staged ──link──> staged and published ──fsync of the folder──> unlink of staged ──> published

A second call goes on from wherever the first one ended. What is neither staged nor published is gone.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from headrace.core.errors import ExternalError
from headrace_connectors.files.parts.folder import sync
from headrace_connectors.files.parts.part_files import CHECKSUM_BYTES


class Standing(Enum):
    """How far a file has come."""

    STAGED = "staged"
    PUBLISHED = "published"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A complete file in the sink's folder, as a committable tells of it.

    staged, final   its names before and after
    bytes, checksum what is in it; checksum: BLAKE2b in hex
    """

    staged: str
    final: str
    bytes: int
    checksum: str

    def document(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    def standing(self, folder: Path) -> Standing:
        """Where it is. Raises ExternalError where its name is taken by another file, OSError where one cannot look."""
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
            found = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=CHECKSUM_BYTES))
        return found.hexdigest() == self.checksum


def publish(folder: Path, files: Sequence[StagedFile]) -> None:
    """Makes files visible that are staged; those that are published already stay as they are.

    Raises ExternalError where another file has the name, OSError where the file system refuses.
    """
    staged = [file for file in files if file.standing(folder) is Standing.STAGED]
    for file in staged:
        try:
            os.link(folder / file.staged, folder / file.final)
        except FileExistsError:
            # its own, from a call that ended here; another one's that came just now is refused
            file.standing(folder)
    if staged:
        sync(folder)
    for file in staged:
        (folder / file.staged).unlink(missing_ok=True)


def _size(path: Path) -> int | None:
    """Bytes of a file; None: there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _taken(path: Path) -> ExternalError:
    return ExternalError(
        f"{path} is not a file of this sink, and stands where its output belongs",
        remedy="move that file away, then start the job again: it goes on from here",
    )
