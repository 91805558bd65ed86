"""Starts each process as a fresh interpreter. Works on every system; costs the program's imports each time."""

from __future__ import annotations

import subprocess
import sys
from typing import Protocol

from headrace.core.errors import ExternalError
from headrace.processes.child import Child, SpawnedChild
from headrace.processes.order import ProcessOrder


class Starter(Protocol):
    """Starts processes for one owner. Safe to use from several threads."""

    def ready(self) -> bool:
        """Whether `start` would return at once; prepares for that if not. Never blocks for long."""
        ...

    def start(self, order: ProcessOrder) -> Child:
        """Starts the process in a new session. Raises ExternalError if it cannot be started, UserError if another
        version is installed than the one that runs.
        """
        ...

    def close(self) -> None:
        """Ends the starter's own processes; started processes live on. Idempotent."""
        ...


class SpawnStarter:
    """Starts a fresh interpreter for each order."""

    def ready(self) -> bool:
        """Always true."""
        return True

    def start(self, order: ProcessOrder) -> Child:
        """Starts a process. Raises ExternalError."""
        # -P: the owner's working directory must not be on the program's import path
        command = [sys.executable, "-P", "-X", "faulthandler", "-m", order.program, *order.arguments]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=order.stdout,
                stderr=order.stderr,
                env=dict(order.environment),
                pass_fds=order.keep,
                start_new_session=True,  # Ctrl-C in a terminal signals only the owner
            )
        except OSError as error:
            raise ExternalError(f"{order.role} cannot be started: {error}", retry=True) from error
        return SpawnedChild(process)

    def close(self) -> None:
        """Does nothing: the starter has no process."""
