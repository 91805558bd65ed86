"""One job on this host in slot processes: the job's machine and a worker run inside this process.

    this process:  event loop (fleet, driver) ── loopback ── supervisor (threads)
    its children:  one slot process for each slice of the job, one connector host

It has the same machine, driver, supervisor and slots as a cluster, so a pipeline that runs here runs on a cluster.
Only for a page it has REST (`run_service`). The journal is in checkpoint storage as always, so an interrupted or killed
run can be resumed.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headrace import __version__
from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.paths import job_url, savepoint_url
from headrace.checkpoint.stores.opening import open_store
from headrace.checkpoint.unique_names import unique_part
from headrace.coordinator.dispatch.job_reference import new_job_id
from headrace.coordinator.driver.daemon_threads import DaemonThreads
from headrace.coordinator.driver.driver import JobDriver, JobWatch
from headrace.coordinator.driver.job_setup import JobSetup
from headrace.coordinator.fleet.fleet import Fleet
from headrace.coordinator.job import effects as do
from headrace.coordinator.job import events as on
from headrace.coordinator.job.config import Beginning, JobConfig
from headrace.coordinator.job.history import JobHistory
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.monitoring.values import JobValues
from headrace.core.clock import SystemClock
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.network.hosts import LOOPBACK
from headrace.core.settings import Home
from headrace.core.signals import TIME_MIN
from headrace.core.source_state import AppliedFloor
from headrace.execution.manifests import total_counters
from headrace.execution.origin import Origin
from headrace.execution.planning import JobPlans
from headrace.local.engine.job import Progress
from headrace.local.runs.runs import WORKER, run_folder, run_logs
from headrace.plan.physical import PhysicalPlan
from headrace.plan.totals import row_totals
from headrace.processes.spawning import SpawnStarter, Starter
from headrace.rpc.failure import error_of
from headrace.rpc.messages import Failure
from headrace.rpc.time_settings import ClusterTimes
from headrace.spec.pipeline import Pipeline
from headrace.worker.supervision.supervisor import Supervisor, WorkerConfig

if TYPE_CHECKING:
    from headrace.local.runs.run_page import RunAddress
    from headrace.local.runs.run_service import RunService

LOOK_S = 0.1
VALUES_EVERY = 5
"""Number of checks between two values for monitoring."""
STORAGE_THREADS = 4
STOP_WITHIN_MS = 7_500
"""The bound of the job of a run that is asked to end, in ms. Docker kills 10 s after it has asked."""
CLOSE_WITHIN_S = 1.5
"""How long storage and connectors of such a run may take to close then, in seconds. Nothing depends on it any more."""
CANCEL_WITHIN_MS = 4_000
"""How long slots may take to exit, and then committers, if there is nothing to keep, in ms."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of a run.

    origin      savepoint or checkpoint to start from
    resume      id of an earlier run to resume
    accepted_topics   topics of its state that may be other ones now: they begin as new ones
    savepoint   folder for the savepoint at the end
    on_values   receives the job's values for monitoring, about twice a second
    on_served   receives the address of the run's REST API once it listens; None: there is none
    final       time advances to its end before that savepoint
    """

    python_path: tuple[str, ...] = ()
    floors: tuple[AppliedFloor, ...] = ()
    origin: Origin | None = None
    resume: str | None = None
    accepted_topics: tuple[str, ...] = ()
    savepoint: str | None = None
    final: bool = False
    on_values: Callable[[JobValues], None] | None = None
    on_served: Callable[[RunAddress], None] | None = None
    times: ClusterTimes = field(default_factory=ClusterTimes)


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The outcome of a run.

    cut_short    the run was stopped before its sources ended
    savepoint    path of the savepoint at the end
    checkpoint   path of the newest complete checkpoint
    ran          an attempt has begun to run
    given_up     no last checkpoint could be taken in time: the run ended at an earlier one
    """

    job: str
    state: JobState
    cut_short: bool
    progress: Progress
    savepoint: str | None
    checkpoint: str | None
    floors: tuple[AppliedFloor, ...]
    failure: HeadraceError | None
    ran: bool
    given_up: bool = False


@dataclass(frozen=True, slots=True)
class _Started:
    """The run as its monitored values name it."""

    job: str
    name: str
    submitted_at_ms: int


@dataclass(frozen=True, slots=True)
class _EndRequest:
    """The request that ends the run. request: its id, which the driver answers; at_once: without a last checkpoint."""

    request: str
    at_once: bool = False


@dataclass(slots=True)
class _Over:
    ended: do.Ended | None = None
    event: asyncio.Event = field(default_factory=asyncio.Event)


class SlotRun:
    """Runs a pipeline; `run` blocks the calling (main) thread. `on_progress` may call `stop`."""

    def __init__(self, pipeline: Pipeline, options: RunOptions, home: Home, starter: Starter | None = None) -> None:
        """`starter`: starts slots and the connector host; by default each is a fresh interpreter."""
        self._starter = starter or SpawnStarter()
        self._pipeline = pipeline
        self._options = options
        self._home = home
        self._plans = JobPlans(pipeline.to_dict())
        self._parallelism = pipeline.parallelism
        self._job = options.resume or new_job_id()
        self._storage = job_url(pipeline.checkpoint.storage or str(home.checkpoints), self._job)
        self._end_request: _EndRequest | None = None
        self._told_to_stop = False
        self._has_killed = False
        self._started = _Started(self._job, pipeline.name, SystemClock().now_ms())
        self._driver: JobDriver | None = None
        self._service: RunService | None = None
        self._over = _Over()
        self._progress = Progress(0, 0, 0, 0, 0, TIME_MIN, 0)

    @property
    def job(self) -> str:
        """The job's id, for `--resume`."""
        return self._job

    @property
    def storage(self) -> str:
        """URL of the job's checkpoint folder."""
        return self._storage

    @property
    def progress(self) -> Progress:
        """The last progress."""
        return self._progress

    def stop(self) -> None:
        """Requests a last checkpoint and the end."""
        self.request_end("run", at_once=False)

    def request_end(self, request: str, *, at_once: bool) -> None:
        """Requests the end: after a last checkpoint, or at once. The first request counts. The driver answers
        `request`."""
        self._end_request = self._end_request or _EndRequest(request, at_once)

    def run(self, on_progress: Callable[[Progress], None] | None = None) -> RunOutcome:
        """Runs to the end. Raises UserError if the run to resume does not exist."""
        if self._options.resume is not None:
            self._require_journal()
        return asyncio.run(self._run(on_progress))

    def _require_journal(self) -> None:
        if not JournalStore(open_store(self._storage), "", "").load().records:
            raise UserError(
                f"there is no run {self._job} at {self._storage}", remedy="leave out --resume to start a new run"
            )

    async def _run(self, on_progress: Callable[[Progress], None] | None) -> RunOutcome:
        with run_logs(self._home, self._job) as logs, run_folder() as folder:
            outcome = await self._run_in(folder, logs.folder, on_progress)
            logs.failed = outcome.failure is not None
            return outcome

    async def _run_in(self, folder: Path, logs: Path, on_progress: Callable[[Progress], None] | None) -> RunOutcome:
        token = secrets.token_hex(16)
        fleet = Fleet(self._job, self._options.times)
        executor = DaemonThreads(STORAGE_THREADS, "storage")
        supervisor: Supervisor | None = None
        try:
            port = await fleet.start(LOOPBACK, 0, token)
            supervisor = Supervisor(self._worker(port, token, folder, logs))
            supervisor.start()
            self._driver = driver = self._open(fleet, executor, logs)
            async with self._served(driver, fleet, executor, folder, logs):
                driver.start()
                await self._supervise(driver, supervisor, on_progress)
                with suppress(TimeoutError):
                    async with asyncio.timeout(CLOSE_WITHIN_S if self._told_to_stop else None):
                        await driver.closed()
            return self._outcome(driver)
        finally:
            if supervisor is not None:
                await asyncio.get_running_loop().run_in_executor(None, supervisor.stop)
            await fleet.stop(workers=False)
            executor.shutdown()

    def _worker(self, port: int, token: str, folder: Path, logs: Path) -> WorkerConfig:
        return WorkerConfig(
            worker="local",
            coordinator=f"{LOOPBACK}:{port}",
            slots=self._plans.facts(self._parallelism).slots,
            host=LOOPBACK,
            folder=folder / WORKER,
            logs=logs,
            token=token,
            times=self._options.times,
            shows_output=True,
            starter=self._starter,
        )

    def _open(self, fleet: Fleet, executor: DaemonThreads, logs: Path) -> JobDriver:
        options = self._options
        hand_over = None
        if options.savepoint is not None:
            hand_over = savepoint_url(options.savepoint, self._job, 0, unique_part())
        clock = SystemClock()
        config = JobConfig(
            job=self._job,
            name=self._pipeline.name,
            parallelism=self._parallelism,
            plan=self._plans.facts,
            names=partial(self._plans.names, self._job),
            version=__version__,
            checkpoint=self._pipeline.checkpoint,
            restart=self._pipeline.restart,
            savepoint=None if options.origin is None else options.origin.url,
            origin=None if options.origin is None else options.origin.manifest,
            left_open={} if options.origin is None else options.origin.open_names,
            accepted_topics=options.accepted_topics,
            resume=options.resume is not None,
            beginning=Beginning.ATTENDED,
            wall_offset_ms=clock.now_ms() - clock.monotonic_ms(),
            hand_over=hand_over,
            keeps_time_open=hand_over is not None and not options.final,
        )
        setup = JobSetup(
            config=config,
            plans=self._plans,
            store=open_store(self._storage),
            storage=self._storage,
            writer=secrets.token_hex(8),
            python_path=options.python_path,
            floors=options.floors,
            log_folder=logs,
            environment={"HEADRACE_HOME": str(self._home.root)},
            starter=self._starter,
        )
        watch = JobWatch(changed=_ignore, answered=self._on_answered, ended=self._on_ended)
        return JobDriver(setup, fleet, executor, watch, clock, JobHistory())

    @asynccontextmanager
    async def _served(
        self, driver: JobDriver, fleet: Fleet, executor: DaemonThreads, folder: Path, logs: Path
    ) -> AsyncIterator[None]:
        """Serves the run's REST API, if the run has a page."""
        if self._options.on_served is None:
            yield
            return
        # imported here: only a run with a page needs a server
        from headrace.local.runs.run_page import serving
        from headrace.local.runs.run_service import RunService, ServedRun

        run = ServedRun(
            job=self._job,
            name=self._pipeline.name,
            submitted_at_ms=self._started.submitted_at_ms,
            pipeline={**self._pipeline.to_dict(), "parallelism": self._parallelism},
            storage=self._storage,
            logs=logs,
            home=self._home,
        )
        self._service = RunService(run, driver, fleet, executor=executor, end=self)
        async with serving(self._service, folder) as address:
            self._options.on_served(address)
            yield

    def _on_answered(self, request: str, path: str | None, failure: Failure | None, note: str | None) -> None:
        if self._service is not None:
            self._service.answered(request, path, failure, note)

    def _on_ended(self, _driver: JobDriver, ended: do.Ended) -> None:
        self._over.ended = ended
        self._over.event.set()

    async def _supervise(
        self, driver: JobDriver, supervisor: Supervisor, on_progress: Callable[[Progress], None] | None
    ) -> None:
        looks = 0
        while not self._over.event.is_set():
            supervisor.wait(0)  # raises the worker's error if it has ended
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._over.event.wait()
            except TimeoutError:
                pass
            self._progress = self._seen(driver)
            if self._options.on_values is not None and looks % VALUES_EVERY == 0:
                self._options.on_values(self._values(driver))
            looks += 1
            if on_progress is not None:
                on_progress(self._progress)
            # posted here, in the event loop: a driver accepts events nowhere else
            if self._end_request is not None and not self._told_to_stop:
                self._told_to_stop = True
                self._end_early(driver, self._end_request)
            self._kill_late_slots(driver, supervisor)

    def _end_early(self, driver: JobDriver, wish: _EndRequest) -> None:
        """Requests a stop with a last checkpoint; a cancel if no attempt has run, because there is nothing to keep."""
        if driver.machine.job.ran and not wish.at_once:
            folder = driver.setup.config.hand_over
            driver.post(on.StopAsked(wish.request, folder, drain=False, within_ms=STOP_WITHIN_MS))
        else:
            driver.post(on.CancelAsked(wish.request, CANCEL_WITHIN_MS))

    def _kill_late_slots(self, driver: JobDriver, supervisor: Supervisor) -> None:
        """Kills the slots of a run that ends without a last checkpoint, once: they may hang. No other attempt needs
        them, and a cluster's patience with them is longer than the run's bound."""
        over = self._over.ended
        is_late = driver.machine.job.ended_early or (over is not None and over.state is JobState.CANCELED)
        if is_late and not self._has_killed:
            self._has_killed = True
            supervisor.kill_slots("killed: the run ends, and it took no checkpoint")

    def _seen(self, driver: JobDriver) -> Progress:
        plan = self._plans.plan(driver.machine.job.parallelism)
        state = driver.machine.state
        return progress_of(plan, driver, "" if state is JobState.RUNNING else driver.message or state.value)

    def _values(self, driver: JobDriver) -> JobValues:
        # imported here: only a run that is monitored needs it
        from headrace.coordinator.dispatch.known_job import monitored

        return monitored(self._started, driver, SystemClock().now_ms())

    def _outcome(self, driver: JobDriver) -> RunOutcome:
        ended = self._over.ended
        assert ended is not None, "the driver has closed"
        failure = None if ended.failure is None else error_of(ended.failure)
        # a run is never suspended on request: another run has taken its journal over
        if ended.state is JobState.SUSPENDED and driver.broken is None:
            failure = ExternalError(driver.machine.view.message, remedy="check whether the run also runs elsewhere")
        restored = driver.machine.job.restored
        floors = () if restored is None else tuple(f for state in restored.sources.values() for f in state.applied)
        return RunOutcome(
            job=self._job,
            state=ended.state,
            cut_short=self._told_to_stop,
            progress=self._progress,
            savepoint=ended.savepoint,
            checkpoint=None if driver.checkpoint is None else driver.checkpoint.path,
            floors=floors,
            failure=failure,
            ran=driver.machine.job.ran,
            # an end that was recorded just before it gave up has its last checkpoint: `ended_early` is false then
            given_up=driver.machine.job.ended_early,
        )


def progress_of(plan: PhysicalPlan, driver: JobDriver, doing: str = "") -> Progress:
    """Sums the slots' reports."""
    statuses = list(driver.statuses.values())
    counters = total_counters([driver.machine.job.counted, *(status.counters for status in statuses)])
    reports = [each for status in statuses for each in status.sources]
    attempt_in, attempt_out, _, _ = row_totals(plan, total_counters(driver.figures.counters()))
    return Progress(
        *row_totals(plan, counters),
        lag=sum(each.lag for each in reports),
        watermark=min((each.watermark for each in reports if each.has_splits), default=TIME_MIN),
        rows_queued=sum(each.rows_queued for status in statuses for each in status.subtasks),
        doing=doing,
        running_ms=driver.figures.running_ms,
        attempt_in=attempt_in,
        attempt_out=attempt_out,
        waiting=driver.data.waiting if driver.machine.state is JobState.RUNNING else (),
    )


def _ignore(_: JobDriver) -> None:
    """Does nothing: `_supervise` polls the driver."""
