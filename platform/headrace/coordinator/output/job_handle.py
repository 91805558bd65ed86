"""Read access to one job's output (transactions, audit, dead letters), whether or not the job is running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.journal import Journal
from headrace.checkpoint.stores.opening import open_store
from headrace.coordinator.connector_host.connector_host import ConnectorHost, HostTimes
from headrace.coordinator.job.history import JobHistory
from headrace.coordinator.output.transaction_safety import Phase
from headrace.coordinator.store.submission import JobSubmission
from headrace.core.settings import Home
from headrace.processes.spawning import Starter

HOSTS_MAX = 3
"""Most temporary connector hosts at a time; further requests wait."""


@dataclass(frozen=True, slots=True)
class HeldJob:
    """A job's fixed facts and its phase.

    pipeline   file form, with secrets, at the job's last parallelism
    storage    URL of its checkpoint folder
    folder     of its logs; environment: of its processes
    """

    job: str
    name: str
    phase: Phase
    state: str
    pipeline: dict[str, Any] = field(repr=False)
    storage: str
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of(
        submission: JobSubmission, history: JobHistory, stands: tuple[Phase, str], folder: Path, home: Home
    ) -> HeldJob:
        """Returns the handle of a stored job. stands: (its phase, its state as users see it)."""
        attempts = history.attempts
        parallelism = attempts[-1].parallelism if attempts else submission.options.parallelism
        return HeldJob(
            job=submission.job,
            name=submission.name,
            phase=stands[0],
            state=stands[1],
            pipeline={**submission.pipeline, "parallelism": parallelism},
            storage=submission.storage,
            folder=folder,
            environment={"HEADRACE_HOME": str(home.root)},
        )

    def journal(self) -> Journal:
        """Reads the job's journal. Blocking. Raises ExternalError."""
        return JournalStore(open_store(self.storage), "", "").load()


def phase_of(*, driven: bool, ended: bool) -> Phase:
    """Returns the phase of a job of this coordinator. driven: it has a driver; ended: it has a result."""
    if driven:
        return Phase.LIVE
    return Phase.ENDED if ended else Phase.SUSPENDED


class ToolHosts:
    """Starts connector hosts beside the jobs' own, so a slow read never delays a commit."""

    def __init__(self, times: HostTimes | None = None, starter: Starter | None = None) -> None:
        self._times = times
        self._starter = starter
        self._free = asyncio.Semaphore(HOSTS_MAX)

    @asynccontextmanager
    async def committers(self, held: HeldJob) -> AsyncIterator[ConnectorHost]:
        """A host with the job's committers open, until the context ends. Raises HeadraceError."""
        async with self.empty(held) as host:
            await host.open_committers(held.pipeline)
            yield host

    @asynccontextmanager
    async def empty(self, held: HeldJob) -> AsyncIterator[ConnectorHost]:
        """A host without open connectors, until the context ends. Raises ExternalError."""
        async with self._free:
            log = held.folder / "tools.log" if held.folder.is_dir() else None
            host = await ConnectorHost.start(held.job, held.environment, log, self._times, self._starter)
            try:
                yield host
            finally:
                await host.close()
