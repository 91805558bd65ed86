"""Starts each process as a fresh interpreter. Works everywhere; costs the imports of the program each time."""

from __future__ import annotations

import subprocess
import sys
from typing import Protocol

from headrace.core.errors import ExternalError
from headrace.processes.child import Child, SpawnedChild
from headrace.processes.order import ProcessOrder


class Starter(Protocol):
    """Starts processes for one owner. May be used by several threads."""

    def ready(self) -> bool:
        """Whether `start` would return at once; prepares for that where it would not. Never blocks for long."""
        ...

    def start(self, order: ProcessOrder) -> Child:
        """Starts the process in a session of its own. Raises ExternalError where it cannot be started, UserError where
        another version is installed than the one that runs."""
        ...

    def close(self) -> None:
        """Ends what the starter itself runs; started processes stay. Idempotent."""
        ...


class SpawnStarter:
    """A fresh interpreter for each order."""

    def ready(self) -> bool:
        """Always."""
        return True

    def start(self, order: ProcessOrder) -> Child:
        """Starts a process. Raises ExternalError."""
        # -P: the folder that the owner was started in is nothing to the program
        command = [sys.executable, "-P", "-X", "faulthandler", "-m", order.program, *order.arguments]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=order.stdout,
                stderr=order.stderr,
                env=dict(order.environment),
                pass_fds=order.keep,
                start_new_session=True,  # Ctrl-C in a terminal is the owner's to answer
            )
        except OSError as error:
            raise ExternalError(f"{order.role} cannot be started: {error}", retry=True) from error
        return SpawnedChild(process)

    def close(self) -> None:
        """Nothing runs."""
