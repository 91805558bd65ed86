"""Threads for what the coordinator asks of one job's storage, and a time limit for each question.

A storage that hangs takes no thread of another job, nobody waits for it longer than the limit, and the process can end.
A thread that hangs is lost until its call returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from headrace.coordinator.driver.daemon_threads import DaemonThreads
from headrace.core.errors import ExternalError

T = TypeVar("T")

JOB_THREADS_MAX = 2
LOOK_S = 30.0
"""How long a look into a job's storage may take."""
SHIP_S = 300.0
"""How long the job's code may take on its way to or from storage: up to 128 MiB."""


class JobStorage:
    """One job's storage. Belongs to the event loop; work runs in the job's own threads.

    url   of the job's folder
    """

    def __init__(self, job: str, url: str) -> None:
        self._job = job
        self.url = url
        self._threads: DaemonThreads | None = None

    @property
    def threads(self) -> Executor:
        """The job's threads; new ones after `close`."""
        if self._threads is None:
            self._threads = DaemonThreads(JOB_THREADS_MAX, f"storage of {self._job}")
        return self._threads

    async def ask(self, work: Callable[[], T], *, limit_s: float = LOOK_S, url: str | None = None) -> T:
        """Runs `work` in a thread. Raises what it raises; ExternalError where it takes longer than the limit.

        url   that `work` reads, where it is not the job's own storage
        """
        try:
            async with asyncio.timeout(limit_s):
                return await asyncio.get_running_loop().run_in_executor(self.threads, work)
        except TimeoutError as cause:
            raise ExternalError(
                f"{url or self.url} has not answered for {limit_s:g} s",
                remedy="is that storage reachable from the coordinator?",
                retry=True,
            ) from cause

    def close(self) -> None:
        """Lets the threads end. Work that others have asked for is still done."""
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None
