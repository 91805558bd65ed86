"""What a cluster that has ended must not leave, waited for; a failure says what it is, and what it does."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from support.processes.running import wait_until

WITH_STACKS: Final[dict[str, str]] = {"PYTHONFAULTHANDLER": "1"}
"""For the environment of containers: Python writes its stacks to stderr when a signal such as SIGABRT ends it. `make
test` sets it for everything else."""


def wait_nothing_remains(remains: Callable[[], Sequence[str]], processes: Callable[[], Iterable[int]]) -> None:
    """Waits until nothing remains. Fails with all that does, and ends the processes by a signal that makes them write
    their stacks to their logs."""
    try:
        wait_until(lambda: not remains(), "nothing remains")
    except AssertionError as error:
        found = "\n".join(remains())
        for pid in processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGABRT)
        # a process that does not end so, because it is stopped, must not hide what remains
        with suppress(AssertionError):
            wait_until(lambda: not list(processes()), "what remained has written its stacks")
        raise AssertionError(f"{error}:\n{found}") from None
