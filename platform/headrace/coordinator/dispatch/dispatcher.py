"""The dispatcher: implements ClusterService, the requests of users about a coordinator's jobs.

    submit ─> plan, find the origin, upload code ─> job store (from here on a crash cannot lose the job) ─> driver
    start  ─> every stored job without a result gets a driver again, which continues it from its journal

The registry (`registry`) decides which job has an owner, and `registry_shell` performs that. The dispatcher translates
requests for the registry, and answers requests that only read. It belongs to the event loop; file access and planning
run in threads.
"""

from __future__ import annotations

import asyncio
import posixpath
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from headrace import __version__
from headrace.checkpoint.stores.opening import read_url
from headrace.client.cluster_models import ClusterInfo
from headrace.client.figure_models import Bottleneck, JobFigures
from headrace.client.models import CheckpointInfo, ExceptionInfo, JobStatus, JobSummary, LogLines, Trigger
from headrace.client.requests import CodeArchive, SubmitRequest
from headrace.client.state_models import StateList, StateQuery, StateRows
from headrace.coordinator.dispatch.accepted_job import Request, Surroundings
from headrace.coordinator.dispatch.job_output import JobOutput
from headrace.coordinator.dispatch.job_reference import NamedJob, find_job
from headrace.coordinator.dispatch.known_job import KnownJob, bottleneck, monitored, running_figures, running_status
from headrace.coordinator.dispatch.preparation import submitted_plans
from headrace.coordinator.dispatch.registry_shell import RegistryShell
from headrace.coordinator.dispatch.term_handlers import TermHandlers
from headrace.coordinator.dispatch.triggers import Triggers
from headrace.coordinator.driver.driver import JobDriver
from headrace.coordinator.driver.job_log import JobLog
from headrace.coordinator.driver.job_storage import SHIP_S
from headrace.coordinator.fleet.fleet import Fleet
from headrace.coordinator.job import events as machine_events
from headrace.coordinator.job.config import STOP_TIMEOUT_MS, Beginning
from headrace.coordinator.job_registry import events as on
from headrace.coordinator.job_registry.entry import Phase
from headrace.coordinator.ledger.records import JobResult
from headrace.coordinator.monitoring.exposition import metrics_text
from headrace.coordinator.monitoring.values import ClusterValues
from headrace.coordinator.output.job_handle import HeldJob, phase_of
from headrace.coordinator.rest import checkpoint_status, job_figures, job_status, state_documents, workers
from headrace.coordinator.rest.service import JobConflictError, JobNotFoundError
from headrace.coordinator.store.job_store import JobStore
from headrace.coordinator.store.ledger_store import LedgerReplacedError
from headrace.coordinator.store.submission import JobSubmission
from headrace.core.errors import HeadraceError, UserError
from headrace.core.text.plural import plural

T = TypeVar("T")

ANSWER_PATIENCE_S = 2.0
"""How long, in seconds, a cancel of a job without a driver waits for the job store before it returns a trigger that is
still in progress."""


class Dispatcher:
    """All jobs of a coordinator."""

    def __init__(
        self, surroundings: Surroundings, cluster: str, store: JobStore, fleet: Fleet, handlers: TermHandlers
    ) -> None:
        """cluster: the cluster's id; store: the jobs of its ledger."""
        self._home = surroundings.home
        self._cluster = cluster
        self._fleet = fleet
        self._clock = surroundings.clock
        self._handlers = handlers
        self._held_until_s = 0.0
        self._triggers = Triggers()
        self._shell = RegistryShell(surroundings, store, fleet, self._triggers, handlers.on_over)
        self.output = JobOutput(self._held, self._triggers, surroundings.clock, surroundings.starter)

    async def start(self) -> None:
        """Reads the jobs of this home and resumes those that have not ended."""
        await self._shell.start()

    async def close(self) -> None:
        """Suspends every job, and closes the job store. The next coordinator continues the jobs from their journals."""
        await self._shell.leave()
        await self.output.close()
        await self._shell.close()

    # ---- jobs ----------------------------------------------------------------------------------------------------

    async def submit(self, request: SubmitRequest) -> str:
        """Accepts a job and returns its id."""
        return await self._submit(request, Beginning.SUBMITTED)

    async def _submit(self, request: SubmitRequest, beginning: Beginning) -> str:
        self._shell.require_started()
        plans, parallelism = await self._shell.blocking(partial(submitted_plans, request.file_form()))
        return await self._shell.submit(Request(request, plans, parallelism, beginning))

    async def resubmit(self, reference: str, from_savepoint: str, key: str | None = None) -> str:
        """Submits an ended job's definition as a new job that starts from a savepoint. Returns the new job's id; of a
        key that it knows, the job that has it."""
        known = self._known(reference)
        if known.driver is not None:
            raise JobConflictError(f"job {known.job} ({known.submission.name}) is {known.state}")
        attempts = known.history.attempts
        parallelism = attempts[-1].parallelism if attempts else known.submission.options.parallelism
        again = partial(_request_again, known.submission, parallelism, from_savepoint, key)
        try:
            request = await known.storage.ask(again, limit_s=SHIP_S)
        finally:
            self._shell.let_go_of_storage(known)
        # RESUMED: this definition has run before, so a connector that is unreachable now must not end the job
        return await self._submit(request, Beginning.RESUMED)

    # ---- reads ---------------------------------------------------------------------------------------------------

    async def jobs(self) -> tuple[JobSummary, ...]:
        """Returns all jobs, newest first."""
        return tuple(_summary(each) for each in self._newest())

    async def figures(self) -> tuple[JobFigures, ...]:
        """Returns all jobs with their figures, newest first."""
        now_ms = self._clock.now_ms()
        return tuple(
            job_figures.ended_figures(_summary(each))
            if each.driver is None
            else running_figures(_summary(each), each.driver, now_ms)
            for each in self._newest()
        )

    def _newest(self) -> list[KnownJob]:
        return sorted(self._shell.jobs.values(), key=lambda known: known.submission.submitted_at_ms, reverse=True)

    async def job(self, reference: str, *, detailed: frozenset[str] | None = None) -> JobStatus:
        """Returns one job's status."""
        known = self._known(reference)
        if known.driver is not None:
            status = running_status(known.submission, known.driver, self._clock.now_ms(), detailed=detailed)
            own = self._fleet.provisioning()
            if own is None:
                return status
            return workers.with_reason(self._with_ends(status), self._fleet.view(), own)
        left = job_status.left_status(known.submission, known.history, known.entry.why)
        match known.entry.phase:
            case Phase.ENDED if known.result is not None:
                if known.last is None:
                    return self._with_ends(job_status.stored_status(known.submission, known.result, known.history))
                return self._with_ends(job_status.ended_status(known.last, known.result, known.history))
            case Phase.ENDING:
                return job_status.ending_status(known.last or left, known.state, known.entry.why, known.history)
            case Phase.LEFT:
                return known.last or left
            case _:
                return left

    async def bottleneck(self, reference: str) -> Bottleneck:
        """Returns why one job is slow."""
        known = self._known(reference)
        if known.driver is None:
            return job_status.no_bottleneck(known.submission, known.state)
        return bottleneck(known.submission, known.driver)

    async def checkpoints(self, reference: str) -> tuple[CheckpointInfo, ...]:
        """Returns the job's checkpoints, newest first: those of its journal, and those that its driver triggered."""
        known = self._known(reference)
        retained = await self._stored(known, checkpoint_status.retained_checkpoints)
        log = known.checkpoints if known.driver is None else known.driver.checkpoints
        return checkpoint_status.with_log(retained, log, self._clock.now_ms())

    async def state(self, reference: str) -> StateList:
        """Returns the job's states."""
        read = partial(state_documents.state_list, now_ms=self._clock.now_ms())
        return await self._stored(self._known(reference), read)

    async def state_rows(self, reference: str, query: StateQuery) -> StateRows:
        """Returns rows of the state of a node."""
        read = partial(state_documents.state_rows, query=query, now_ms=self._clock.now_ms())
        return await self._stored(self._known(reference), read)

    async def _stored(self, known: KnownJob, read: Callable[[str], T]) -> T:
        """Reads a job's storage, by its URL."""
        try:
            return await known.storage.ask(partial(read, known.submission.storage))
        finally:
            self._shell.let_go_of_storage(known)

    async def exceptions(self, reference: str) -> tuple[ExceptionInfo, ...]:
        """Returns the job's failures, newest first."""
        history, own = self._known(reference).history, self._fleet.provisioning()
        listed = tuple(job_status.exception_info(each) for each in reversed(history.exceptions))
        return listed if own is None else tuple(workers.with_end(each, own) for each in listed)

    async def logs(self, reference: str, lines: int, after: str | None = None) -> LogLines:
        """Returns the last lines of the job's log, or those behind a position."""
        folder = self._shell.store.folder(self._known(reference).job)
        return await self._shell.blocking(partial(JobLog.read, folder, lines, after))

    async def cluster(self) -> ClusterInfo:
        """Returns the cluster's workers and slots."""
        view = self._fleet.view()
        return ClusterInfo(
            cluster_id=self._cluster,
            version=__version__,
            workers=workers.worker_infos(self._fleet),
            slots=view.slots_total,
            slots_free=view.slots_free,
            jobs_running=len(self._shell.driven),
            application_exit_code=self._shell.store.application_exit_code,
            held=time.monotonic() < self._held_until_s,
            provisioning=workers.provisioning_info(self._fleet.provisioning()),
        )

    async def stacks(self, worker: str) -> str:
        """Returns the stacks of a worker's threads and of its slots'."""
        return await self._fleet.stacks(worker)

    async def worker_logs(self, worker: str) -> str:
        """Returns the newest lines of a worker and of its slots."""
        return await self._fleet.logs(worker)

    async def end_application(self, exit_code: int) -> None:
        """Records the end of the cluster's application."""
        await self._shell.end_application(exit_code)

    async def hold(self, seconds: float) -> None:
        """Notes that another job follows within this time."""
        self._held_until_s = time.monotonic() + seconds

    async def metrics(self) -> str:
        """Returns the cluster and the running jobs as Prometheus text."""
        now_ms = self._clock.now_ms()
        view = self._fleet.view()
        cluster = ClusterValues(len(view.workers), view.slots_total, view.slots_free)
        return metrics_text([monitored(job, driver, now_ms) for job, driver in self._shell.driven], cluster)

    # ---- operations ----------------------------------------------------------------------------------------------

    async def savepoint(self, reference: str, directory: str | None) -> Trigger:
        """Requests a savepoint from the job's driver."""
        driver = self._driver(reference)
        trigger = self._triggers.begin(driver.job, "savepoint")
        folder = self._shell.savepoint_folder(driver, directory)
        driver.post(machine_events.SavepointAsked(trigger.trigger_id, folder))
        return await self._kept(trigger)

    async def checkpoint(self, reference: str) -> Trigger:
        """Requests a checkpoint from the job's driver."""
        driver = self._driver(reference)
        trigger = self._triggers.begin(driver.job, "checkpoint")
        driver.post(machine_events.SavepointAsked(trigger.trigger_id, ""))
        return trigger

    async def stop(
        self, reference: str, savepoint: str | None, *, drain: bool, within_ms: int | None = None
    ) -> Trigger:
        """Requests a stop after a last checkpoint, with a savepoint or without one."""
        job = self._known(reference).job
        trigger = self._triggers.begin(job, "stop", directory=savepoint, drain=drain)
        stop = on.Stop(trigger.trigger_id, savepoint, drain, within_ms or STOP_TIMEOUT_MS)
        self._ask(trigger, on.StopAsked(job, stop))
        return await self._kept(trigger)

    async def cancel(self, reference: str) -> Trigger:
        """Cancels a job. If the job has no driver, the call waits until its end is durable, for at most
        `ANSWER_PATIENCE_S`."""
        known = self._known(reference)
        trigger = self._triggers.begin(known.job, "cancel")
        self._ask(trigger, on.CancelAsked(known.job, trigger.trigger_id))
        if known.keeping is not None:
            # bounded: a job store that hangs must not delay the HTTP response; the client polls the trigger then
            await asyncio.wait({known.keeping}, timeout=ANSWER_PATIENCE_S)
        return await self._kept(trigger)

    def _ask(self, trigger: Trigger, event: on.StopAsked | on.CancelAsked) -> None:
        try:
            self._shell.handle(event)
        except HeadraceError:
            self._triggers.forget(trigger.trigger_id)
            raise

    async def _kept(self, trigger: Trigger) -> Trigger:
        """Returns the operation as it stands, once the job store has it, so that the next coordinator knows it.

        The wait is bounded, because an operation does not depend on the job store. Raises LedgerReplacedError.
        """
        keeping = self._shell.keep_trigger(trigger.trigger_id)
        await asyncio.wait({keeping}, timeout=ANSWER_PATIENCE_S)
        # the next coordinator leads already, and would not know the operation
        if keeping.done() and isinstance(error := keeping.exception(), LedgerReplacedError):
            raise error
        return self._triggers.get(trigger.job_id, trigger.trigger_id)

    async def rescale(self, reference: str, parallelism: int) -> Trigger:
        """Requests another parallelism. Raises JobConflictError if the cluster has too few slots for it."""
        driver = self._driver(reference)
        facts = await self._shell.blocking(partial(driver.setup.plans.facts, parallelism))
        slots = self._fleet.slots_max
        if facts.slots > slots:
            raise JobConflictError(
                f"parallelism {parallelism} takes {plural(facts.slots, 'slot')}, and the cluster has {slots}",
                remedy="start more workers first",
            )
        trigger = self._triggers.begin(driver.job, "rescale")
        driver.post(machine_events.RescaleAsked(trigger.trigger_id, parallelism))
        return await self._kept(trigger)

    async def trigger(self, reference: str, trigger_id: str) -> Trigger:
        """Returns the current state of an operation."""
        return self._triggers.get(self._known(reference).submission.job, trigger_id)

    async def shutdown(self) -> None:
        """Requests the end of the coordinator's process."""
        self._handlers.on_shutdown()

    # ---- inside --------------------------------------------------------------------------------------------------

    def _known(self, reference: str) -> KnownJob:
        jobs = self._shell.jobs
        named = [NamedJob(job, known.submission.name, known.entry.holds_name) for job, known in jobs.items()]
        try:
            return jobs[find_job(named, reference)]
        except UserError as error:
            raise JobNotFoundError(error.message, remedy=error.remedy) from error

    def _held(self, reference: str) -> HeldJob:
        known = self._known(reference)
        phase = phase_of(driven=known.driver is not None, ended=known.entry.phase is Phase.ENDED)
        folder = self._shell.store.folder(known.job)
        return HeldJob.of(known.submission, known.history, (phase, known.state), folder, self._home)

    def _with_ends(self, status: JobStatus) -> JobStatus:
        own = self._fleet.provisioning()
        return status if own is None else workers.with_ends(status, own)

    def _driver(self, reference: str) -> JobDriver:
        return self._shell.require_driven(self._known(reference).job)


def _summary(known: KnownJob) -> JobSummary:
    return job_status.summary(known.submission, known.state, _result(known), known.history)


def _result(known: KnownJob) -> JobResult | None:
    """The job's result, once it is durable."""
    # a result that a crash could still lose must not be shown: a client might submit the name again
    return known.result if known.entry.phase is Phase.ENDED else None


def _request_again(submission: JobSubmission, parallelism: int, from_savepoint: str, key: str | None) -> SubmitRequest:
    """Returns a request that starts the stored job again, with its definition and code, from this savepoint. Blocking:
    reads the code from the job's checkpoint storage.

    Floors (watermarks assigned to idle partitions) are not part of the request: the savepoint contains those that took
    effect. Raises ExternalError if the code is gone.
    """
    return SubmitRequest(
        pipeline=submission.pipeline,
        parallelism=parallelism,
        from_savepoint=from_savepoint,
        python_path=submission.options.python_path,
        code=tuple(CodeArchive.of(posixpath.basename(url), read_url(url)) for url in submission.options.code),
        key=key,
    )
