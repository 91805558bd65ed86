"""Sets the command line of a forked process, for `ps`, `pkill -f`, `/proc/PID/cmdline` and `environ`.

A fork shows its parent's command line. Linux lets a process name the memory of its arguments and environment
(PR_SET_MM_MAP). Where that is disabled, they are written over the old ones, cut to their size.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_PR_SET_NAME, _PR_SET_MM, _PR_SET_MM_MAP = 15, 35, 14
_NAME_BYTES_MAX = 15
_NO_FILE = 0xFFFFFFFF


class _Map(ctypes.Structure):
    """`struct prctl_mm_map` of Linux."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("start_code", "end_code", "start_data", "end_data", "start_brk", "brk")),
        *((name, ctypes.c_uint64) for name in ("start_stack", "arg_start", "arg_end", "env_start", "env_end", "auxv")),
        ("auxv_size", ctypes.c_uint32),
        ("exe_fd", ctypes.c_uint32),
    )


# kept alive: the kernel reads arguments and environment from this memory for as long as the process lives
_area: mmap.mmap | None = None


def set_command_line(arguments: Sequence[str], environment: Mapping[str, str], name: str) -> None:
    """Sets what lists of processes show. `name`: a word of at most 15 bytes, for `ps -o comm` and `top`.

    Requires a process with a single thread: the end of the heap must not move meanwhile.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NAME, name.encode()[:_NAME_BYTES_MAX], 0, 0, 0)
    shown = b"".join(os.fsencode(each) + b"\0" for each in arguments)
    variables = b"".join(os.fsencode(f"{key}={value}") + b"\0" for key, value in environment.items())
    if not _move(libc, shown, variables):
        _overwrite(shown)


def replace_last_argument(before: str, after: str) -> None:
    """Writes `after` over the last argument, which is `before` and at least as long."""
    if sys.platform != "linux":
        return
    start, end = _argument_area()
    old, new = os.fsencode(before), os.fsencode(after)
    place = end - 1 - len(old)
    if place > start and len(new) <= len(old) and ctypes.string_at(place, len(old)) == old:
        ctypes.memmove(place, new.ljust(len(old), b"\0"), len(old))


def _move(libc: ctypes.CDLL, arguments: bytes, variables: bytes) -> bool:
    """Copies both into new memory. Returns whether the kernel reads them from there."""
    global _area  # noqa: PLW0603 - one process, one command line
    # private: the kernel accepts no memory that may be a file's
    area = mmap.mmap(-1, len(arguments) + len(variables) + 1, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.write(arguments + variables)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    stat = _stat()
    code = _Map(
        start_code=stat[23],
        end_code=stat[24],
        start_data=stat[42],
        end_data=stat[43],
        start_brk=stat[44],
        start_stack=stat[25],
        arg_start=start,
        arg_end=start + len(arguments),
        env_start=start + len(arguments),
        env_end=start + len(arguments) + len(variables),
        auxv=0,
        auxv_size=0,
        exe_fd=_NO_FILE,
    )
    sbrk = libc.sbrk
    sbrk.restype, sbrk.argtypes = ctypes.c_void_p, [ctypes.c_ssize_t]
    prctl = libc.prctl
    prctl.argtypes = [ctypes.c_int, *([ctypes.c_ulong] * 4)]
    address, size = ctypes.addressof(code), ctypes.sizeof(code)
    # last, directly before the call: an allocation in between may move the end of the heap
    code.brk = sbrk(0)
    if prctl(_PR_SET_MM, _PR_SET_MM_MAP, address, size, 0) != 0:
        return False
    _area = area
    return True


def _overwrite(arguments: bytes) -> None:
    start, end = _argument_area()
    room = end - start
    # the last byte stays NUL: otherwise the kernel reads the environment behind it as arguments, too
    ctypes.memmove(start, arguments[: room - 1].ljust(room, b"\0"), room)


def _argument_area() -> tuple[int, int]:
    stat = _stat()
    return stat[45], stat[46]


def _stat() -> list[int]:
    """Returns the fields of /proc/self/stat from the fourth on, which has index 1: the state, a letter, is left out."""
    text = Path("/proc/self/stat").read_text()
    return [0, *(int(field) for field in text.rpartition(")")[2].split()[1:])]
