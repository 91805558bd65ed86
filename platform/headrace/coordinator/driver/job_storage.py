"""Threads for the coordinator's calls to one job's storage, with a time limit for each call.

So storage that hangs blocks no thread of another job, no caller waits longer than its limit, and the process can exit.
A thread whose call hangs does no other work until the call returns.
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
READ_S = 30.0
"""Time limit of a read of the job's storage."""
SHIP_S = 300.0
"""Time limit for the transfer of the job's code to or from storage: up to 128 MiB."""


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

    async def ask(self, work: Callable[[], T], *, limit_s: float = READ_S, url: str | None = None) -> T:
        """Runs `work` in a thread. Raises what it raises, and ExternalError if it exceeds the limit.

        url   that `work` reads, if it is not the job's own storage
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
        """Ends the threads after the queued work is done."""
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None
