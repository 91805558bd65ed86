"""Collects the exit codes of orphans: descendants of our children that outlived their parents.

A subreaper, and pid 1 of a container, becomes the parent of every orphan below it. An ended orphan stays in the process
table (as a zombie) until its exit code is collected.
"""

from __future__ import annotations

import os
import time
import weakref

from headrace.processes.child import Child

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
