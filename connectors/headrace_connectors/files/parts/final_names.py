"""Gives a file its final name, in one step and without replacing another file.

One step, so that a reader may take the file away at any moment: a staged file that is gone has been published, also if
nothing is left of it. Linux has a system call for that (`renameat2`). Where it or the file system (NFS) lacks it, the
file is linked and its old name removed: two steps, between which it has both names.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path

from headrace_connectors.files.parts.folder import sync

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP})


def give_name(staged: Path, final: Path) -> None:
    """Renames `staged` to `final`. Raises FileExistsError if another file has that name, FileNotFoundError if `staged`
    is gone, OSError."""
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
