"""Forks of this process: whether it may fork, and forks whose child is an orphan.

An orphan's parent is the nearest subreaper above it, or init:

    this process ── fork ──> middle ── fork ──> child: runs
       │ <─────child's pid─────┘ and exits: the child has another parent
       └─ reaps the middle and returns: the kernel has reparented the child by then
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

from headrace.core.errors import UserError

METHOD_VARIABLE = "HEADRACE_START_METHOD"


class StartMethod(StrEnum):
    """As in `multiprocessing`; the template is the fork server."""

    FORKSERVER = "forkserver"
    SPAWN = "spawn"


def start_method(environment: Mapping[str, str] = os.environ) -> StartMethod:
    """Returns the method in HEADRACE_START_METHOD; forkserver on Linux and spawn elsewhere. Raises UserError."""
    # adoption needs PR_SET_CHILD_SUBREAPER, which only Linux has; and macOS libraries do not survive forks
    can_fork = sys.platform == "linux"
    named = environment.get(METHOD_VARIABLE, "")
    if not named:
        return StartMethod.FORKSERVER if can_fork else StartMethod.SPAWN
    try:
        method = StartMethod(named)
    except ValueError as error:
        remedy = f"set it to {' or '.join(StartMethod)}, or leave it out"
        raise UserError(f"{METHOD_VARIABLE} is {named!r}", remedy=remedy) from error
    if method is StartMethod.FORKSERVER and not can_fork:
        raise UserError(f"{METHOD_VARIABLE} is {named!r}, which needs Linux", remedy="set it to spawn, or leave it out")
    return method


# ---- whether a fork of this process equals a fresh interpreter -------------------------------------------------------

LIBRARY_THREADS = {"jemalloc_bg_thd", "polars-ooc-clea"}
"""Threads that libraries start when they are imported; they hold no lock while they wait for work."""


def has_one_thread() -> bool:
    """Whether this process has no other thread, so no library would miss its own in a fork."""
    return len(_others()) == 0


def has_no_threads_at_work() -> bool:
    """Whether no thread of any library could hold a lock, which a fork would find locked forever."""
    return all((task / "comm").read_text().strip() in LIBRARY_THREADS for task in _others())


def _others() -> list[Path]:
    return [task for task in Path("/proc/self/task").iterdir() if task.name != str(os.getpid())]


def variables_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that only take effect while an interpreter starts: a fork keeps those of its parent."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(("PYTHON", "LD_")) and name != "PYTHONUNBUFFERED"
    }


# ---- orphans ---------------------------------------------------------------------------------------------------------

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
