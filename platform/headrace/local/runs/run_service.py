"""The requests of a page about one run: implements `ClusterService` for a job that runs in the foreground.

It reads the run's driver. Of the requests that change something it takes a savepoint, and those that Ctrl-C makes; for
the others a job has to run on a cluster. It belongs to the run's event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar

from headrace import __version__
from headrace.client.cluster_models import ClusterInfo
from headrace.client.figure_models import Bottleneck, JobFigures
from headrace.client.models import CheckpointInfo, ExceptionInfo, JobStatus, JobSummary, LogLines, Trigger
from headrace.client.requests import SubmitRequest
from headrace.client.state_models import StateList, StateQuery, StateRows
from headrace.coordinator.dispatch.job_output import JobOutput
from headrace.coordinator.dispatch.job_reference import NamedJob, find_job
from headrace.coordinator.dispatch.known_job import (
    bottleneck,
    monitored,
    running_figures,
    running_status,
    savepoint_folder,
)
from headrace.coordinator.dispatch.triggers import Triggers
from headrace.coordinator.driver.driver import JobDriver
from headrace.coordinator.driver.job_log import JobLog
from headrace.coordinator.fleet.fleet import Fleet
from headrace.coordinator.job import events as on
from headrace.coordinator.monitoring.exposition import metrics_text
from headrace.coordinator.output.job_handle import HeldJob
from headrace.coordinator.output.transaction_safety import Phase
from headrace.coordinator.rest import checkpoint_status, job_status, state_documents
from headrace.coordinator.rest.service import JobConflictError, JobNotFoundError
from headrace.coordinator.rest.workers import worker_infos
from headrace.core.clock import SystemClock
from headrace.core.errors import UserError
from headrace.core.settings import Home
from headrace.rpc.messages import Failure

Result = TypeVar("Result")
_REMEDY = "headrace cluster start --ui serves a cluster; headrace submit FILE runs the pipeline on it"


@dataclass(frozen=True, slots=True)
class ServedRun:
    """What does not change while a run goes on.

    submitted_at_ms   when it started (epoch ms)
    pipeline          file form, with secrets
    storage           URL of its checkpoint folder; logs: folder of its processes' logs
    """

    job: str
    name: str
    submitted_at_ms: int
    pipeline: dict[str, Any] = field(repr=False)
    storage: str
    logs: Path
    home: Home


class Endable(Protocol):
    """A run, as its service ends it."""

    def request_end(self, request: str, *, at_once: bool) -> None:
        """Requests the end: after a last checkpoint, or at once. The driver answers `request`."""
        ...


class RunService:
    """The service of one run. Its savepoints and operations are forgotten with the run."""

    def __init__(self, run: ServedRun, driver: JobDriver, fleet: Fleet, *, executor: Executor, end: Endable) -> None:
        self._run = run
        self._driver = driver
        self._fleet = fleet
        self._executor = executor
        self._end = end
        self._clock = SystemClock()
        self._triggers = Triggers()
        self.output = JobOutput(self._held, self._triggers, self._clock, driver.setup.starter)

    def answered(self, request: str, path: str | None, failure: Failure | None, note: str | None) -> None:
        """Called when the driver has answered a request."""
        self._triggers.answer(request, path, failure, note)

    # ---- reads ---------------------------------------------------------------------------------------------------

    async def jobs(self) -> tuple[JobSummary, ...]:
        """Returns the run."""
        return (self._summary(),)

    async def figures(self) -> tuple[JobFigures, ...]:
        """Returns the run with its figures."""
        return (running_figures(self._summary(), self._driver, self._clock.now_ms()),)

    async def job(self, reference: str, *, detailed: frozenset[str] | None = None) -> JobStatus:
        """Returns the run's status."""
        self._require(reference)
        return running_status(self._run, self._driver, self._clock.now_ms(), detailed=detailed)

    async def bottleneck(self, reference: str) -> Bottleneck:
        """Returns why the run is slow."""
        self._require(reference)
        return bottleneck(self._run, self._driver)

    async def checkpoints(self, reference: str) -> tuple[CheckpointInfo, ...]:
        """Returns the run's checkpoints, newest first."""
        self._require(reference)
        retained = await self._blocking(partial(checkpoint_status.retained_checkpoints, self._run.storage))
        return checkpoint_status.with_log(retained, self._driver.checkpoints, self._clock.now_ms())

    async def state(self, reference: str) -> StateList:
        """Returns the run's states."""
        self._require(reference)
        return await self._blocking(partial(state_documents.state_list, self._run.storage, now_ms=self._clock.now_ms()))

    async def state_rows(self, reference: str, query: StateQuery) -> StateRows:
        """Returns rows of the state of a node."""
        self._require(reference)
        read = partial(state_documents.state_rows, self._run.storage, query, now_ms=self._clock.now_ms())
        return await self._blocking(read)

    async def exceptions(self, reference: str) -> tuple[ExceptionInfo, ...]:
        """Returns the run's failures, newest first."""
        self._require(reference)
        return tuple(job_status.exception_info(each) for each in reversed(self._driver.history.exceptions))

    async def logs(self, reference: str, lines: int, after: str | None) -> LogLines:
        """Returns lines that the run's processes logged."""
        self._require(reference)
        return await self._blocking(partial(JobLog.read, self._run.logs, lines, after))

    async def cluster(self) -> ClusterInfo:
        """Returns the run's slots as those of one worker."""
        view = self._fleet.view()
        return ClusterInfo(
            cluster_id=self._run.job,
            version=__version__,
            workers=worker_infos(self._fleet),
            slots=view.slots_total,
            slots_free=view.slots_free,
            jobs_running=1,
        )

    async def stacks(self, worker: str) -> str:
        """Returns the stacks of this process and of its slots."""
        return await self._fleet.stacks(worker)

    async def worker_logs(self, worker: str) -> str:
        """Returns the newest lines of this process and of its slots."""
        return await self._fleet.logs(worker)

    async def metrics(self) -> str:
        """Returns the run as Prometheus text."""
        return metrics_text((monitored(self._run, self._driver, self._clock.now_ms()),))

    async def trigger(self, reference: str, trigger_id: str) -> Trigger:
        """Returns the current state of an operation."""
        return self._triggers.get(self._require(reference), trigger_id)

    # ---- operations ----------------------------------------------------------------------------------------------

    async def savepoint(self, reference: str, directory: str | None) -> Trigger:
        """Requests a savepoint."""
        trigger = self._triggers.begin(self._require(reference), "savepoint")
        folder = savepoint_folder(self._driver, directory, str(self._run.home.checkpoints))
        self._driver.post(on.SavepointAsked(trigger.trigger_id, folder))
        return trigger

    async def checkpoint(self, reference: str) -> Trigger:
        """Requests a checkpoint."""
        trigger = self._triggers.begin(self._require(reference), "checkpoint")
        self._driver.post(on.SavepointAsked(trigger.trigger_id, ""))
        return trigger

    async def stop(
        self, reference: str, savepoint: str | None, *, drain: bool, within_ms: int | None = None
    ) -> Trigger:
        """Ends the run as Ctrl-C does, and within its time: after a last checkpoint, from which it can be resumed."""
        job = self._require(reference)
        if savepoint is not None or drain:
            raise JobConflictError(
                "a run ends as its command line says",
                remedy="headrace run --savepoint DIR, with --drain, ends with a savepoint; stop it without one here",
            )
        return self._request_end(self._triggers.begin(job, "stop"), at_once=False)

    async def cancel(self, reference: str) -> Trigger:
        """Ends the run at once; its checkpoints stay."""
        return self._request_end(self._triggers.begin(self._require(reference), "cancel"), at_once=True)

    def _request_end(self, trigger: Trigger, *, at_once: bool) -> Trigger:
        self._end.request_end(trigger.trigger_id, at_once=at_once)
        return trigger

    # ---- what a run does not do ----------------------------------------------------------------------------------

    async def submit(self, request: SubmitRequest) -> str:
        """Raises JobConflictError."""
        _refuse("this is one run, and takes no other jobs")

    async def resubmit(self, reference: str, from_savepoint: str, key: str | None = None) -> str:
        """Raises JobConflictError."""
        _refuse("this is one run, and takes no other jobs")

    async def rescale(self, reference: str, parallelism: int) -> Trigger:
        """Raises JobConflictError."""
        _refuse("a run keeps its parallelism")

    async def end_application(self, exit_code: int) -> None:
        """Raises JobConflictError."""
        _refuse("a run is no application")

    async def hold(self, seconds: float) -> None:
        """Raises JobConflictError."""
        _refuse("this is one run, and takes no other jobs")

    async def shutdown(self) -> None:
        """Raises JobConflictError."""
        _refuse("this is one run, and no cluster")

    # ---- inside --------------------------------------------------------------------------------------------------

    def _require(self, reference: str) -> str:
        """Returns the run's id. Raises JobNotFoundError for another reference."""
        try:
            return find_job([NamedJob(self._run.job, self._run.name, running=True)], reference)
        except UserError as error:
            raise JobNotFoundError(error.message, remedy=error.remedy) from error

    def _summary(self) -> JobSummary:
        return job_status.summary(self._run, self._driver.machine.state.value, None, self._driver.history)

    def _held(self, reference: str) -> HeldJob:
        self._require(reference)
        run = self._run
        return HeldJob(
            job=run.job,
            name=run.name,
            phase=Phase.LIVE,
            state=self._driver.machine.state.value,
            pipeline=run.pipeline,
            storage=run.storage,
            folder=run.logs,
            environment={"HEADRACE_HOME": str(run.home.root)},
        )

    async def _blocking(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)


def _refuse(text: str) -> NoReturn:
    raise JobConflictError(text, remedy=_REMEDY)
