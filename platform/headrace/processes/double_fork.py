"""Forks an orphan: a process whose parent is the nearest subreaper above it, or init.

this process ── fork ──> middle ── fork ──> child: runs
   │ <─────child's pid─────┘ and exits: the child has another parent
   └─ reaps the middle and returns: the kernel has reparented the child by then
"""

from __future__ import annotations

import errno
import os
import struct
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

_PID = struct.Struct(">i")


def quiet_fork() -> int:
    """`os.fork` without Python's warning about threads: each caller knows which threads exist, and why the fork is
    safe.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def double_fork(run: Callable[[], NoReturn]) -> int:
    """Runs `run` in an orphan and returns its pid; `run` may begin before. Raises OSError if no fork is possible."""
    told, tell = os.pipe()
    try:
        try:
            middle = quiet_fork()
            if middle == 0:
                _run_middle(run, told=told, tell=tell)
        finally:
            os.close(tell)
        answer = os.read(told, _PID.size)
        # reaped before this returns: only when the middle is gone has the kernel reparented the child
        os.waitpid(middle, 0)
    finally:
        os.close(told)
    # a middle that was killed has sent nothing, and its child may run: the caller treats that as a failed fork
    pid = int(_PID.unpack(answer)[0]) if len(answer) == _PID.size else -errno.EAGAIN
    if pid < 0:
        raise OSError(-pid, os.strerror(-pid))
    return pid


def _run_middle(run: Callable[[], NoReturn], *, told: int, tell: int) -> NoReturn:
    try:
        child = quiet_fork()
    except OSError as error:
        child = -(error.errno or errno.EAGAIN)
    if child == 0:
        os.close(told)
        os.close(tell)
        run()
    with suppress(OSError):
        os.write(tell, _PID.pack(child))
    # _exit: exit handlers belong to the process that was forked
    os._exit(0)
