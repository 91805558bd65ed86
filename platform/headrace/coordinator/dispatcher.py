"""The dispatcher: accepts jobs, knows which there are, hands requests to their drivers. The ClusterService itself.

    submit ─> plan, find the origin, ship code ─> job store (now a crash cannot lose it) ─> driver
    start  ─> every stored job without a result gets a driver again; its journal says how it goes on

Belongs to the event loop; files and planning go to a thread.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from headrace import __version__
from headrace.checkpoint.paths import default_storage, job_url, joined, savepoint_url
from headrace.checkpoint.store import open_store
from headrace.client.models import (
    CheckpointInfo,
    ClusterInfo,
    ExceptionInfo,
    JobStatus,
    JobSummary,
    SubmitRequest,
    Trigger,
    WorkerInfo,
)
from headrace.coordinator import effects as do
from headrace.coordinator import events as on
from headrace.coordinator import job_status
from headrace.coordinator.driver import JobDriver, JobWatch
from headrace.coordinator.fleet import Fleet
from headrace.coordinator.held_job import HeldJob, phase_of
from headrace.coordinator.history import JobHistory
from headrace.coordinator.job_log import JobLog
from headrace.coordinator.job_output import JobOutput
from headrace.coordinator.job_reference import NamedJob, find_job, new_job_id
from headrace.coordinator.job_setup import JobSetup
from headrace.coordinator.job_state import JobState
from headrace.coordinator.job_store import JobResult, JobStore, JobSubmission
from headrace.coordinator.journaling import EndState, end_state
from headrace.coordinator.metrics import metrics_text
from headrace.coordinator.plan_facts import Beginning, JobConfig
from headrace.coordinator.preparation import earlier_origin, plans_at, ship_code, submitted_plans, wished_origin
from headrace.coordinator.resubmission import request_again
from headrace.coordinator.service import JobConflict, NoSuchJob
from headrace.coordinator.triggers import Triggers
from headrace.core.clock import Clock
from headrace.core.errors import Domain, ExternalError, HeadraceError, UserError
from headrace.core.settings import Home
from headrace.processes.spawning import SpawnStarter, Starter
from headrace.rpc.messages import Failure
from headrace.spec.settings import NoRestart

if TYPE_CHECKING:
    from headrace.coordinator.origin import Origin
    from headrace.coordinator.planning import JobPlans

LOG = logging.getLogger("headrace.coordinator")
T = TypeVar("T")

THREADS_MAX = 8
RESUME_RETRY_S = 5.0
"""How soon a job is tried again whose storage was away when the coordinator started."""
START_PATIENCE_S = 2.0
"""How long the start waits for jobs to be resumed: storage that hangs holds up its own jobs, not the cluster."""
JOB_THREADS_MAX = 2
"""For a job's own storage: one that hangs takes no thread of another job's."""
STORAGE_LOOK_S = 30.0
"""How long a look into a job's storage may take."""
BREAKS_MAX = 3
"""How many masters of a job may fail in this coordinator: what fails again and again would only hide the cause."""
CLOSE_PATIENCE_S = 10.0
"""How long results and histories may take to reach the disk at the end."""


@dataclass(slots=True)
class _Known:
    """A job of this coordinator: driven, ended, or waiting to be resumed.

    last       how it stood at its end
    breaks     masters of it that failed
    resuming   tries until it is driven; None: nobody tries
    tried      it was tried once; waits_for: why that came to nothing
    stops      asked for while it waits, for whoever drives it
    """

    submission: JobSubmission
    history: JobHistory
    result: JobResult | None = None
    driver: JobDriver | None = None
    last: JobStatus | None = None
    log: JobLog | None = None
    breaks: int = 0
    resuming: asyncio.Task[None] | None = None
    tried: asyncio.Event = field(default_factory=asyncio.Event)
    waits_for: str = ""
    stops: list[_Stop] = field(default_factory=list)
    storage: ThreadPoolExecutor | None = None
    """Threads for its storage, while it is driven or waits."""


@dataclass(frozen=True, slots=True)
class _Stop:
    """A stop. `directory`: that the user named for its savepoint, None: it takes none."""

    trigger: str
    directory: str | None
    drain: bool


class Dispatcher:
    """All jobs of a coordinator."""

    def __init__(
        self,
        home: Home,
        cluster: str,
        fleet: Fleet,
        clock: Clock,
        on_shutdown: Callable[[], None],
        starter: Starter | None = None,
    ) -> None:
        """starter: starts connector hosts; else they are fresh interpreters."""
        self._home = home
        self._starter = starter or SpawnStarter()
        self._cluster = cluster
        self._fleet = fleet
        self._clock = clock
        self._on_shutdown = on_shutdown
        self._store = JobStore(home.jobs)
        self._jobs: dict[str, _Known] = {}
        self._triggers = Triggers()
        self._executor = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="storage")
        self._tasks: set[asyncio.Task[Any]] = set()
        self._submitting: list[str] = []
        self._started = self._closing = False
        self.output = JobOutput(self._held, self._triggers, clock, self._starter)

    async def start(self) -> None:
        """Finds the jobs of this home; those that had not ended go on."""
        stored, unreadable = await self._blocking(self._store.load_all)
        for job, reason in unreadable.items():
            LOG.error("job %s cannot be read and is left alone: %s", job, reason)
        for each in stored:
            self._jobs[each.submission.job] = _Known(each.submission, each.history, each.result)
        self._started = True
        waiting = [known for known in self._jobs.values() if known.result is None]
        for known in waiting:
            self._resume_after(known, 0.0)
        if waiting:
            await asyncio.wait(
                [asyncio.ensure_future(known.tried.wait()) for known in waiting], timeout=START_PATIENCE_S
            )

    async def close(self) -> None:
        """Leaves every job as its journal says, and ends."""
        self._closing = True
        for known in self._jobs.values():
            if known.resuming is not None:
                known.resuming.cancel()
        running = [known.driver for known in self._jobs.values() if known.driver is not None]
        for driver in running:
            driver.post(on.Suspend("the coordinator ends"))
        for driver in running:
            await driver.closed()
        await self.output.close()
        if self._tasks:
            # results among them: what ended a moment ago is on disk before this process is gone
            await asyncio.wait(self._tasks, timeout=CLOSE_PATIENCE_S)
        for known in self._jobs.values():
            self._let_go_of_storage(known)
        self._executor.shutdown(wait=False, cancel_futures=True)

    # ---- jobs ----------------------------------------------------------------------------------------------------

    async def submit(self, request: SubmitRequest) -> str:
        """Accepts a job."""
        return await self._submit(request, Beginning.SUBMITTED)

    async def _submit(self, request: SubmitRequest, beginning: Beginning) -> str:
        self._require_started()
        plans, parallelism = await self._blocking(partial(submitted_plans, request.file_form()))
        name = plans.model(parallelism).name
        self._require_free_name(name, allow=request.allow_duplicate)
        self._submitting.append(name)
        try:
            return await self._accept(request, plans, parallelism, beginning)
        finally:
            self._submitting.remove(name)

    async def _accept(self, request: SubmitRequest, plans: JobPlans, parallelism: int, beginning: Beginning) -> str:
        model = plans.model(parallelism)
        origin = await self._blocking(partial(wished_origin, request, plans, parallelism, self._clock.now_ms()))
        job = new_job_id()
        storage = job_url(model.checkpoint.storage or default_storage(self._home), job)
        code = await self._blocking(partial(ship_code, request, storage))
        options = {
            "parallelism": parallelism,
            "from_savepoint": None if origin is None else origin.url,
            "claim": request.claim,
            "renames": dict(request.renames),
            "code": list(code),
            "python_path": list(request.python_path),
            "floors": [[f.source, f.topic, f.partition, f.position, f.floor] for f in request.floors],
        }
        submission = JobSubmission(
            job=job,
            name=model.name,
            pipeline=request.file_form(),
            options=options,
            submitted_at_ms=self._clock.now_ms(),
            storage=storage,
        )
        await self._blocking(partial(self._store.add, submission))
        known = self._jobs[job] = _Known(submission, JobHistory())
        self._drive(known, plans, origin, beginning)
        return job

    async def resubmit(self, reference: str, from_savepoint: str) -> str:
        """The same definition again, from a savepoint."""
        known = self._known(reference)
        if known.driver is not None:
            raise JobConflict(f"job {known.submission.job} ({known.submission.name}) is {self._state(known)}")
        attempts = known.history.attempts
        parallelism = attempts[-1].parallelism if attempts else int(known.submission.options["parallelism"])
        again = partial(request_again, known.submission, parallelism, from_savepoint)
        # it has run: it must not end because something is away just now
        return await self._submit(await self._blocking(again), Beginning.RESUMED)

    def _require_free_name(self, name: str, *, allow: bool) -> None:
        same = [known for known in self._jobs.values() if known.submission.name == name and _holds_name(known)]
        if same and not allow:
            what = (
                "runs already" if same[0].driver is not None else f"waits to go on: {same[0].waits_for or 'it is read'}"
            )
            raise JobConflict(
                f"job {same[0].submission.job} of that name ({name}) {what}",
                remedy="upgrade, stop or cancel it; or submit with --allow-duplicate",
            )
        if name in self._submitting and not allow:
            raise JobConflict(
                f"a job of that name ({name}) is being submitted just now", remedy="or submit with --allow-duplicate"
            )

    def _resume_after(self, known: _Known, delay_s: float) -> None:
        known.resuming = asyncio.create_task(
            self._resume(known, delay_s), name=f"resumption of job {known.submission.job}"
        )

    async def _resume(self, known: _Known, delay_s: float) -> None:
        """Tries until the job is driven, or cannot be."""
        try:
            while not await self._is_driven(known, delay_s):
                delay_s = RESUME_RETRY_S
        except Exception as error:
            # of this job alone: the others go on
            LOG.exception("job %s cannot go on", known.submission.job)
            known.waits_for = error.message if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"
        finally:
            known.resuming = None
            known.tried.set()

    async def _is_driven(self, known: _Known, delay_s: float) -> bool:
        """One try. Raises what another one cannot mend."""
        await asyncio.sleep(delay_s)
        submission = known.submission
        parallelism = int(submission.options["parallelism"])
        try:
            plans = await self._blocking(partial(plans_at, submission.pipeline, parallelism))
            origin = await self._in_storage(known, partial(earlier_origin, submission, plans))
        except (UserError, ExternalError) as error:
            if not error.retry:
                raise
            LOG.warning("job %s cannot go on: %s; trying again", submission.job, error)
            known.waits_for = error.message
            return False
        finally:
            known.tried.set()
        self._drive(known, plans, origin, Beginning.RESUMED)
        return True

    async def _in_storage(self, known: _Known, work: Callable[[], T]) -> T:
        """In a thread for the job's storage alone. Raises ExternalError where that takes too long."""
        if known.storage is None:
            known.storage = ThreadPoolExecutor(JOB_THREADS_MAX, f"storage of {known.submission.job}")
        try:
            async with asyncio.timeout(STORAGE_LOOK_S):
                return await asyncio.get_running_loop().run_in_executor(known.storage, work)
        except TimeoutError as cause:
            raise ExternalError(
                f"{known.submission.storage} has not answered for {STORAGE_LOOK_S:g} s",
                remedy="is that storage reachable from the coordinator?",
                retry=True,
            ) from cause

    @staticmethod
    def _let_go_of_storage(known: _Known) -> None:
        if known.storage is not None:
            # what others have asked for meanwhile is still done
            known.storage.shutdown(wait=False)
            known.storage = None

    def _drive(self, known: _Known, plans: JobPlans, origin: Origin | None, beginning: Beginning) -> None:
        submission = known.submission
        parallelism = int(submission.options["parallelism"])
        model = plans.model(parallelism)
        config = JobConfig(
            job=submission.job,
            name=submission.name,
            parallelism=parallelism,
            plan=plans.facts,
            names=partial(plans.names, submission.job),
            version=__version__,
            checkpoint=model.checkpoint,
            restart=model.restart,
            beginning=beginning,
            savepoint=None if origin is None else origin.url,
            origin=None if origin is None else origin.manifest,
            left_open={} if origin is None else origin.open_names,
            wall_offset_ms=self._clock.now_ms() - self._clock.monotonic_ms(),
        )
        folder = self._store.folder(submission.job)
        setup = JobSetup(
            config=config,
            plans=plans,
            store=open_store(submission.storage),
            storage=submission.storage,
            writer=secrets.token_hex(8),
            code=tuple(submission.options["code"]),
            python_path=tuple(submission.options["python_path"]),
            floors=_floors(submission.options["floors"]),
            claimed=submission.options["from_savepoint"] if submission.options.get("claim") else None,
            log_folder=folder,
            environment={"HEADRACE_HOME": str(self._home.root)},
            starter=self._starter,
        )
        if known.log is not None:
            known.log.close()  # of a driver before this one
        known.log = JobLog(submission.job, folder)
        watch = JobWatch(
            changed=partial(self._on_changed, known),
            answered=self._triggers.answer,
            ended=partial(self._on_ended, known),
        )
        if known.storage is None:
            known.storage = ThreadPoolExecutor(JOB_THREADS_MAX, f"storage of {submission.job}")
        known.driver = driver = JobDriver(setup, self._fleet, known.storage, watch, self._clock, known.history)
        known.waits_for = ""
        driver.start()
        for stop in known.stops:
            driver.post(self._stop_event(driver, stop))
        known.stops.clear()

    def _on_changed(self, known: _Known, driver: JobDriver) -> None:
        if driver.history is not known.history:
            known.history = driver.history
            self._spawn(self._blocking(partial(self._store.save_history, known.submission.job, driver.history)))

    def _on_ended(self, known: _Known, driver: JobDriver, ended: do.Ended) -> None:
        known.driver = None
        self._spawn(self._after_driver(known, driver))
        if driver.broken is not None:
            self._on_broken(known, driver, driver.broken)
            return
        known.last = job_status.running_status(
            known.submission, driver, driver.setup.plans.plan(driver.machine.job.parallelism)
        )
        if ended.state is not JobState.SUSPENDED:
            self._conclude(known, end_state(ended.state), ended.savepoint, ended.failure)

    def _on_broken(self, known: _Known, driver: JobDriver, failure: Failure) -> None:
        """A job's master has failed. Another one reads the journal and goes on; after a few the job has failed."""
        known.breaks += 1
        known.history = driver.history
        again = known.breaks < BREAKS_MAX and not isinstance(driver.setup.config.restart, NoRestart)
        message = "its master failed; another one begins in a moment"
        known.last = job_status.left_status(known.submission, known.history, message, failure)
        if self._closing:
            return
        if again:
            self._resume_after(known, RESUME_RETRY_S)
        else:
            self._conclude(known, "FAILED", None, failure)

    async def _after_driver(self, known: _Known, driver: JobDriver) -> None:
        """A driver writes its last records when it is over."""
        await driver.closed()
        if known.driver is None and known.resuming is None:
            self._let_go_of_storage(known)

    def _conclude(self, known: _Known, state: EndState, savepoint: str | None, failure: Failure | None) -> None:
        known.result = JobResult(state=state, ended_at_ms=self._clock.now_ms(), savepoint=savepoint, failure=failure)
        self._spawn(self._keep_result(known, known.result))

    async def _keep_result(self, known: _Known, result: JobResult) -> None:
        forgotten = await self._blocking(partial(self._store.end, known.submission.job, result))
        if known.log is not None:
            known.log.close()
        for job in forgotten:
            self._jobs.pop(job, None)

    # ---- looks ---------------------------------------------------------------------------------------------------

    async def jobs(self) -> tuple[JobSummary, ...]:
        """All jobs, newest first."""
        self._require_started()
        newest = sorted(self._jobs.values(), key=lambda known: known.submission.submitted_at_ms, reverse=True)
        return tuple(job_status.summary(each.submission, self._state(each), each.result) for each in newest)

    async def job(self, reference: str) -> JobStatus:
        """All about one."""
        known = self._known(reference)
        driver = known.driver
        if driver is not None:
            return job_status.running_status(
                known.submission, driver, driver.setup.plans.plan(driver.machine.job.parallelism)
            )
        if known.result is not None and known.last is not None:
            return job_status.ended_status(known.last, known.result)
        if known.result is not None:
            return job_status.stored_status(known.submission, known.result, known.history)
        if known.last is not None and known.resuming is None:
            return known.last
        return job_status.left_status(known.submission, known.history, _why_left(known))

    async def checkpoints(self, reference: str) -> tuple[CheckpointInfo, ...]:
        """Retained checkpoints, newest first, as the journal has them."""
        known = self._known(reference)
        look = partial(job_status.retained_checkpoints, known.submission.storage)
        try:
            return await self._in_storage(known, look)
        finally:
            if known.driver is None and known.resuming is None:
                self._let_go_of_storage(known)

    async def exceptions(self, reference: str) -> tuple[ExceptionInfo, ...]:
        """Failures, newest first."""
        history = self._known(reference).history
        return tuple(job_status.exception_info(each) for each in reversed(history.exceptions))

    async def logs(self, reference: str, lines: int) -> tuple[str, ...]:
        """The end of the job's log."""
        job = self._known(reference).submission.job
        return await self._blocking(partial(JobLog.tail, self._store.folder(job), lines))

    async def cluster(self) -> ClusterInfo:
        """Workers and slots."""
        view = self._fleet.view()
        workers = []
        for each in view.workers:
            register = self._fleet.registered(each.worker)
            version = __version__ if register is None else register.version
            workers.append(
                WorkerInfo(
                    worker=each.worker,
                    host=each.host,
                    pid=each.pid,
                    slots=each.slots,
                    slots_free=each.free,
                    version=version,
                )
            )
        running = sum(known.driver is not None for known in self._jobs.values())
        return ClusterInfo(
            cluster_id=self._cluster,
            version=__version__,
            workers=tuple(workers),
            slots=view.slots_total,
            slots_free=view.slots_free,
            jobs_running=running,
        )

    async def metrics(self) -> str:
        """The running jobs for a monitoring system."""
        running = [(each.submission, each.driver) for each in self._jobs.values()]
        now_ms = self._clock.now_ms()
        return metrics_text(job_status.sample(job, driver, now_ms) for job, driver in running if driver is not None)

    # ---- operations ----------------------------------------------------------------------------------------------

    async def savepoint(self, reference: str, directory: str | None) -> Trigger:
        """Takes a savepoint."""
        driver = self._driver(reference)
        trigger = self._triggers.begin(driver.job, "savepoint")
        driver.post(on.SavepointAsked(trigger.trigger_id, self._folder(driver, directory)))
        return trigger

    async def stop(self, reference: str, savepoint: str | None, *, drain: bool) -> Trigger:
        """Stops at a cut."""
        known = self._known(reference)
        driver = self._driver(reference) if known.resuming is None else known.driver
        trigger = self._triggers.begin(known.submission.job, "stop")
        stop = _Stop(trigger.trigger_id, savepoint, drain)
        if driver is None:
            known.stops.append(stop)
            self._triggers.progress(trigger.trigger_id, f"waits for the job to go on: {known.waits_for}")
        else:
            driver.post(self._stop_event(driver, stop))
        return trigger

    async def cancel(self, reference: str) -> Trigger:
        """Ends a job at once."""
        known = self._known(reference)
        if known.resuming is not None and known.driver is None:
            return self._cancel_waiting(known)
        driver = self._driver(reference)
        trigger = self._triggers.begin(driver.job, "cancel")
        driver.post(on.CancelAsked(trigger.trigger_id))
        return trigger

    def _cancel_waiting(self, known: _Known) -> Trigger:
        """Nothing of it runs, and its journal cannot be reached: the job store keeps its end."""
        assert known.resuming is not None, "somebody tries to go on with it"
        known.resuming.cancel()
        known.resuming = None
        trigger = self._triggers.begin(known.submission.job, "cancel")
        self._triggers.answer(trigger.trigger_id, None, None)
        for stop in known.stops:
            self._triggers.answer(stop.trigger, None, Failure("the job was canceled", Domain.USER.value, retry=False))
        known.stops.clear()
        self._let_go_of_storage(known)
        self._conclude(known, "CANCELED", None, None)
        return self._triggers.get(known.submission.job, trigger.trigger_id)

    def _stop_event(self, driver: JobDriver, stop: _Stop) -> on.StopAsked:
        folder = None if stop.directory is None else self._folder(driver, stop.directory)
        return on.StopAsked(stop.trigger, folder, stop.drain)

    async def rescale(self, reference: str, parallelism: int) -> Trigger:
        """Runs on with another parallelism."""
        driver = self._driver(reference)
        facts = await self._blocking(partial(driver.setup.plans.facts, parallelism))
        slots = self._fleet.view().slots_total
        if facts.slots > slots:
            raise JobConflict(
                f"parallelism {parallelism} takes {facts.slots} slots, and the cluster has {slots}",
                remedy="start more workers first",
            )
        trigger = self._triggers.begin(driver.job, "rescale")
        driver.post(on.RescaleAsked(trigger.trigger_id, parallelism))
        return trigger

    async def trigger(self, reference: str, trigger_id: str) -> Trigger:
        """How an operation stands."""
        return self._triggers.get(self._known(reference).submission.job, trigger_id)

    async def shutdown(self) -> None:
        """Asks the process to end."""
        self._on_shutdown()

    # ---- inside --------------------------------------------------------------------------------------------------

    def _folder(self, driver: JobDriver, directory: str | None) -> str:
        where = directory or joined(default_storage(self._home), "savepoints")
        return savepoint_url(where, driver.job, driver.machine.job.epoch + 1, secrets.token_hex(8))

    def _known(self, reference: str) -> _Known:
        self._require_started()
        named = [NamedJob(job, known.submission.name, _holds_name(known)) for job, known in self._jobs.items()]
        try:
            return self._jobs[find_job(named, reference)]
        except UserError as error:
            raise NoSuchJob(error.message, remedy=error.remedy) from error

    def _held(self, reference: str) -> HeldJob:
        known = self._known(reference)
        phase = phase_of(driven=known.driver is not None, ended=known.result is not None)
        folder = self._store.folder(known.submission.job)
        return HeldJob.of(known.submission, known.history, (phase, self._state(known)), folder, self._home)

    def _driver(self, reference: str) -> JobDriver:
        known = self._known(reference)
        if known.driver is None:
            why = f": {_why_left(known)}" if known.result is None else ""
            raise JobConflict(f"job {known.submission.job} ({known.submission.name}) is {self._state(known)}{why}")
        return known.driver

    def _require_started(self) -> None:
        if not self._started:
            raise ExternalError("the coordinator is starting: it reads its jobs", remedy="ask again", retry=True)

    def _state(self, known: _Known) -> str:
        if known.driver is not None:
            return known.driver.machine.state.value
        return JobState.SUSPENDED.value if known.result is None else known.result.state

    async def _blocking(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            LOG.error("%s", error)


def _floors(stored: list[list[Any]]) -> tuple[Any, ...]:
    from headrace.core.source_state import AppliedFloor

    return tuple(AppliedFloor(*each) for each in stored)


def _holds_name(known: _Known) -> bool:
    """Whether the job runs, or will again as soon as that is possible."""
    return known.driver is not None or known.resuming is not None


def _why_left(known: _Known) -> str:
    if known.resuming is None:
        return f"this coordinator could not go on with it: {known.waits_for or 'see its log'}"
    return f"{known.waits_for}; tried again every {RESUME_RETRY_S:g} s" if known.waits_for else "it is being resumed"
