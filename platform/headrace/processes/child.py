"""A started process as its owner sees it: alive, ended with a code, killed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time
import weakref
from typing import Protocol

UNKNOWN_CODE = 255
"""The code of a child whose exit code another part of this process has collected."""


class Child(Protocol):
    """A child of this process. Codes are as in `subprocess`: below 0, the signal that ended it."""

    @property
    def pid(self) -> int:
        """Its process id."""
        ...

    def poll(self) -> int | None:
        """Its exit code; None: it runs."""
        ...

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Waits for its end. Returns its exit code; None: it still runs after the timeout."""
        ...

    def kill(self) -> None:
        """Sends SIGKILL, unless it has ended."""
        ...


class SpawnedChild:
    """A child that `subprocess` started."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit code; None: it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Waits for its end. Returns its exit code; None: it still runs after the timeout."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """Sends SIGKILL, unless it has ended."""
        self._process.kill()


class ForkedChild:
    """A child that a template forked and that this process has adopted. Linux only. May be used by several threads.

    The pid stays this child's until its exit code is collected, which only this object does; so signals never reach
    another process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._lock = threading.Lock()
        self._code: int | None = None
        self._ended = os.pidfd_open(pid)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._pid

    def poll(self) -> int | None:
        """Its exit code; None: it runs."""
        with self._lock:
            if self._code is None:
                self._collect()
            return self._code

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Waits for its end. Returns its exit code; None: it still runs after the timeout."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        with self._lock:
            if self._code is not None:
                return self._code
            # a duplicate: another thread may collect the code, and close the original, while this one waits
            ended = os.dup(self._ended)
        try:
            poller = select.poll()
            poller.register(ended, select.POLLIN)
            left_ms = None if deadline_s is None else max(deadline_s - time.monotonic(), 0) * 1_000
            poller.poll(left_ms)
        finally:
            os.close(ended)
        return self.poll()

    def kill(self) -> None:
        """Sends SIGKILL, unless it has ended."""
        with self._lock:
            if self._code is None:
                self._collect()
            if self._code is None:
                os.kill(self._pid, signal.SIGKILL)

    def _collect(self) -> None:
        try:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
        except ChildProcessError:
            pid, status = self._pid, UNKNOWN_CODE << 8
        if pid == self._pid:
            self._code = os.waitstatus_to_exitcode(status)
            os.close(self._ended)


# ---- orphans: descendants of children that outlived their parents ----------------------------------------------------
#
# A subreaper, and pid 1 of a container, becomes the parent of every orphan below it. An ended orphan stays in the
# process table (as a zombie) until its exit code is collected.

ORPHAN_SECONDS = 2.0
"""A process that has been a zombie for longer is an orphan: code that starts a process collects its exit code
sooner.
"""


class Orphans:
    """Collects ended processes that were not started here."""

    def __init__(self) -> None:
        self._known: weakref.WeakValueDictionary[int, Child] = weakref.WeakValueDictionary()
        self._ended: tuple[int, float] = (0, 0.0)

    def know(self, child: Child) -> None:
        """Leaves this child's exit code to its `Child`."""
        self._known[child.pid] = child

    def reap(self) -> None:
        """Collects exit codes of ended orphans. Must be called now and then."""
        while True:
            try:
                # WNOWAIT leaves the process a zombie: collecting the code of a known child here would lose it
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            # waitid returns one process: a known child hides those behind it until its `Child` collects the code
            if ended is None or ended.si_pid in self._known or not self._is_orphan(ended.si_pid):
                return
            os.waitpid(ended.si_pid, os.WNOHANG)

    def _is_orphan(self, pid: int) -> bool:
        now_s = time.monotonic()
        if self._ended[0] != pid:
            self._ended = (pid, now_s)
        return now_s - self._ended[1] > ORPHAN_SECONDS
