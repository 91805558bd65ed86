"""The attendant of a cluster that serves one job or program: a child of the ApplicationMaster, whose exit code says how
the application has ended.
"""

from __future__ import annotations

import logging
import os
import subprocess
import threading
from collections.abc import Callable, Sequence

from headrace.core.retry import Backoff
from headrace.yarn.records import FinalStatus

LOG = logging.getLogger("headrace.yarn")
FINISHED, FAILED, CANCELED = 0, 1, 4
"""Exit codes of the attendant."""
RESTARTS_MAX = 10
BACKOFF = Backoff(first_s=0.5, max_s=5.0)
END_SECONDS = 5.0
_STATUS = {FINISHED: FinalStatus.SUCCEEDED, FAILED: FinalStatus.FAILED, CANCELED: FinalStatus.KILLED}


class AttendantProcess:
    """The child, started again if it is killed. on_end: called in a thread once the application's end is known."""

    def __init__(self, command: Sequence[str], on_end: Callable[[], None]) -> None:
        self._command = command
        self._on_end = on_end
        self._closing = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="headrace-attendant-watch", daemon=True)
        self.status: FinalStatus | None = None
        """How the application has ended; None: it has not."""

    def start(self) -> None:
        """Starts it."""
        self._thread.start()

    def close(self) -> None:
        """Ends it, unless it has ended."""
        self._closing.set()
        child = self._child
        if child is not None and child.poll() is None:
            child.terminate()
            try:
                child.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def _run(self) -> None:
        pause_s = 0.0
        for _ in range(RESTARTS_MAX + 1):
            self._child = subprocess.Popen([*self._command, "--parent", str(os.getpid())])
            code = self._child.wait()
            if self._closing.is_set():
                return
            if code in _STATUS:
                self.status = _STATUS[code]
                break
            LOG.warning("the attendant has ended with code %d, and is started again", code)
            pause_s = BACKOFF.next_s(pause_s)
            self._closing.wait(pause_s)
        self.status = self.status or FinalStatus.FAILED
        self._on_end()
