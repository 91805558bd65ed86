"""Publishes staged files under their final names: without replacing a file, and repeatable after a crash at any point.

    staged ──one step (`give_name`)──> published ──fsync of the folder──> durable

A second call continues from the state in which the first one ended. A file that is neither staged nor published is
gone: a reader has taken it away, or it was lost (`CommittedEpochs` of the committer distinguishes them).
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from headrace.core.errors import ExternalError
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


_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP})


def give_name(staged: Path, final: Path) -> None:
    """Renames `staged` to `final`, in one step and without replacing another file.

    One step, so that a reader may take the file away at any moment: a staged file that is gone has been published, even
    if nothing is left of it. Linux has a system call for that (`renameat2`). If it or the file system (NFS) lacks it,
    the file is linked and its old name removed: two steps, between which it has both names.

    Raises FileExistsError if another file has that name, FileNotFoundError if `staged` is gone, OSError.
    """
    try:
        if rename_new(staged, final):
            return
        os.link(staged, final)
    except FileExistsError:
        # it may be the same file, linked by an interrupted call
        if not final.samefile(staged):
            raise
    # so that after a crash the file has at least one durable name
    sync(final.parent)
    staged.unlink(missing_ok=True)


def rename_new(staged: Path, final: Path) -> bool:
    """Renames in one step; returns False where that is not supported. Raises as `give_name`."""
    if _renameat2 is None:
        return False
    if _renameat2(_AT_FDCWD, os.fsencode(staged), _AT_FDCWD, os.fsencode(final), _RENAME_NOREPLACE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(staged), None, str(final))


def _system_call() -> Callable[[int, bytes, int, bytes, int], int] | None:
    """`renameat2` of the C library; None: it has none (before glibc 2.28, other systems)."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    call.restype = ctypes.c_int
    found: Callable[[int, bytes, int, bytes, int], int] = call
    return found


_renameat2 = _system_call()
