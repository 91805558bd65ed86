"""The program of an application, as a child of its attendant."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence

from headrace.processes.marked_process import MarkedProcess

_END_SECONDS = 30.0
"""How long the program has after SIGTERM."""


class Program:
    """A Python program that is started when its coordinator leads, and ended when another one does. Blocking."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """command: the file and its arguments."""
        self._command = command
        self._environment = environment
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def has_started(self) -> bool:
        """Whether it runs, or has ended by itself."""
        return self._child is not None

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs, or does not."""
        return None if self._child is None else self._child.poll()

    def start(self) -> None:
        """Starts it."""
        self._child = subprocess.Popen([sys.executable, *self._command], env=self._environment)

    def end(self) -> int | None:
        """Ends it if it runs; returns its exit code, None if it was not started. It may be started again."""
        child, self._child = self._child, None
        if child is None:
            return None
        MarkedProcess(child.pid, (), child).terminate(patience_seconds=_END_SECONDS)
        return child.wait()
