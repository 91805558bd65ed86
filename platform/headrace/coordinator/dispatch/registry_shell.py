"""Performs the effects of the job registry: tries, drivers, the job store, answers. Decides nothing itself.

    users ──────┐                                   ┌── tries: plans and origin, in threads
    tries ──────┼─> events ─> registry ─> effects ──┼── drivers: start, stop, cancel, suspend
    drivers ────┤            (`registry`, pure)     ├── job store: submissions and ends, in threads
    job store ──┘                                   └── answers to triggers

It belongs to the event loop. An effect that raises ends in an event.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar, assert_never

from headrace.checkpoint.paths import job_url
from headrace.client.models import JobStatus
from headrace.coordinator.dispatch.accepted_job import Prepared, Request, Surroundings, options_of
from headrace.coordinator.dispatch.job_reference import new_job_id
from headrace.coordinator.dispatch.known_job import KnownJob, running_status, savepoint_folder
from headrace.coordinator.dispatch.preparation import earlier_origin, plans_at, ship_code, wished_origin
from headrace.coordinator.dispatch.triggers import StopsDue, Triggers, outcome, resumed
from headrace.coordinator.driver.driver import JobDriver, JobWatch
from headrace.coordinator.driver.job_log import JobLog
from headrace.coordinator.driver.job_setup import JobSetup, is_of_earlier_term
from headrace.coordinator.driver.job_storage import SHIP_S, JobStorage
from headrace.coordinator.fleet.fleet import Fleet
from headrace.coordinator.job import effects as machine_effects
from headrace.coordinator.job import events as machine_events
from headrace.coordinator.job.config import Beginning
from headrace.coordinator.job.history import JobHistory
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.journaling import end_state
from headrace.coordinator.job_registry import effects as do
from headrace.coordinator.job_registry import events as on
from headrace.coordinator.job_registry.entry import Phase
from headrace.coordinator.job_registry.registry import Registry
from headrace.coordinator.ledger.records import JobResult
from headrace.coordinator.rest import job_status
from headrace.coordinator.rest.service import JobConflictError
from headrace.coordinator.store.job_store import JobStore, StoredJob, WatchedStore
from headrace.coordinator.store.submission import JobSubmission
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.leadership.candidacy.candidacy import TermOver
from headrace.rpc.failure import failure_of
from headrace.rpc.messages import Failure
from headrace.spec.settings import NoRestart

LOG = logging.getLogger("headrace.coordinator")
T = TypeVar("T")

THREADS_MAX = 8
RETRY_S = 5.0
"""Delay before the next try of a job whose storage was unreachable, and before a failed job store write is repeated."""
START_PATIENCE_S = 2.0
"""How long the start waits for jobs to be resumed, in seconds: storage that hangs must not delay the whole cluster."""
BREAKS_MAX = 3
"""How many state machines of one job may fail in this coordinator. More retries would only hide the cause."""
CLOSE_PATIENCE_S = 10.0
"""How long close waits for results and histories to reach the disk."""
# jobs in these phases need their storage threads: a try reads the origin, a driver reads and writes the journal
_HAS_STORAGE_WORK = frozenset({Phase.WAITING, Phase.DRIVEN})


class RegistryShell:
    """The jobs of a coordinator."""

    def __init__(
        self,
        surroundings: Surroundings,
        store: JobStore,
        fleet: Fleet,
        triggers: Triggers,
        on_over: Callable[[TermOver], None],
    ) -> None:
        """on_over: called when another coordinator has taken the jobs over, or the ledger is out of reach."""
        self._surroundings = surroundings
        self._clock = surroundings.clock
        self._fleet = fleet
        self._triggers = triggers
        self._store = store
        self._stored = WatchedStore(store, self.blocking, on_over)
        self._registry = Registry(retry_s=RETRY_S, breaks_max=BREAKS_MAX)
        self._known: dict[str, KnownJob] = {}
        self._executor = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="storage")
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stops_due = StopsDue()
        self._leaving = False
        self._accepting: dict[str, asyncio.Task[str]] = {}
        """Key -> the submission in progress that has it."""

    @property
    def jobs(self) -> Mapping[str, KnownJob]:
        """All jobs by id. Raises ExternalError until the job store is read."""
        self.require_started()
        return self._known

    def require_started(self) -> None:
        """Raises ExternalError until the job store is read."""
        self._registry.require_started()

    @property
    def driven(self) -> list[tuple[JobSubmission, JobDriver]]:
        """The jobs that have a driver; none until the job store is read."""
        return [(each.submission, each.driver) for each in self._known.values() if each.driver is not None]

    @property
    def store(self) -> JobStore:
        """The job store."""
        return self._store

    async def start(self) -> None:
        """Reads the jobs of this home and resumes those that have not ended."""
        stored, unreadable = await self._stored.call(self._store.load_all)
        for job, reason in unreadable.items():
            LOG.error("job %s cannot be read and is left alone: %s", job, reason)
        effects = self._registry.handle(on.JobsRead(tuple(_read(each) for each in stored)))
        for each in stored:
            job, storage = each.submission.job, JobStorage(each.submission.job, each.submission.storage)
            self._known[job] = KnownJob(each.submission, each.history, storage, self._registry.jobs[job], each.result)
        self._perform_all(effects)
        self._resume_requests()
        self._spawn(self._stored.watch())
        waiting = [known for known in self._known.values() if known.entry.phase is Phase.WAITING]
        if waiting:
            await asyncio.wait(
                [asyncio.ensure_future(known.tried.wait()) for known in waiting], timeout=START_PATIENCE_S
            )

    def _resume_requests(self) -> None:
        """Goes on with what users requested from an earlier coordinator, or answers it."""
        for kept in self._store.triggers:
            self._triggers.restore(kept)
            if kept.is_final:
                continue
            try:
                self.handle(resumed(kept, self._known))
            except JobConflictError as refused:
                path, failure = outcome(kept, self._known, refused)
                self._perform(do.Answer(kept.trigger, path, failure))

    async def leave(self) -> None:
        """Suspends every driven job. Returns when no driver runs any more."""
        self._leaving = True
        drivers = [known.driver for known in self._known.values() if known.driver is not None]
        self.handle(on.Closing())
        for driver in drivers:
            await driver.closed()

    async def close(self) -> None:
        """Called after `leave`: waits for the job store's writes, then closes all threads."""
        self._stored.close()
        try:
            # some of these tasks write results: they must reach the disk before this process exits
            async with asyncio.timeout(CLOSE_PATIENCE_S):
                while self._tasks:
                    await asyncio.wait(self._tasks)
        except TimeoutError:
            LOG.warning("%d writes or submissions have not ended within %g s", len(self._tasks), CLOSE_PATIENCE_S)
        for known in self._known.values():
            known.storage.close()
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def end_application(self, exit_code: int) -> None:
        """Records the end of the cluster's application. Raises ExternalError."""
        await self._stored.call(partial(self._store.end_application, exit_code))

    def keep_trigger(self, trigger_id: str) -> asyncio.Task[None]:
        """Writes an operation to the job store, as it stands then. Returns the write, which may raise ExternalError."""
        return self._spawn(self._keep_trigger(trigger_id))

    async def _keep_trigger(self, trigger_id: str) -> None:
        kept = self._triggers.kept(trigger_id)
        if kept is not None:
            await self._stored.call(partial(self._store.keep_trigger, kept))

    def handle(self, event: on.Event) -> None:
        """Passes an event to the registry and performs its effects. Raises JobConflictError, ExternalError for a
        refused request.
        """
        self._perform_all(self._registry.handle(event))

    def require_driven(self, job: str) -> JobDriver:
        """Returns the job's driver. Raises JobConflictError if it has none."""
        self._registry.require_driven(job)
        driver = self._known[job].driver
        assert driver is not None, "a driven job has a driver"
        return driver

    async def blocking(self, work: Callable[[], T]) -> T:
        """Runs `work` in a thread: planning, or the job store. Not for a job's storage, which may hang."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def savepoint_folder(self, driver: JobDriver, directory: str | None) -> str:
        """Returns the URL of a new savepoint folder, below the user's directory or the default storage."""
        return savepoint_folder(driver, directory, self._surroundings.checkpoints)

    def let_go_of_storage(self, known: KnownJob) -> None:
        """Ends the job's storage threads unless the job still needs them."""
        if known.entry.phase not in _HAS_STORAGE_WORK:
            known.storage.close()

    # ---- submitting ----------------------------------------------------------------------------------------------

    async def submit(self, request: Request) -> str:
        """Accepts a job and returns its id once it is durable; of a key that it knows, the job that has it.

        Raises JobConflictError, UserError, ExternalError.
        """
        key = request.asked.key
        if key is not None:
            for each in self.jobs.values():
                if each.submission.options.key == key:
                    return each.job
            if key in self._accepting:
                return await asyncio.shield(self._accepting[key])
        job = new_job_id()
        model = request.model
        storage = JobStorage(job, job_url(model.checkpoint.storage or self._surroundings.checkpoints, job))
        self.handle(on.SubmitAsked(job, model.name, request.asked.allow_duplicate))
        # Shielded: a client that disconnects cancels this call, perhaps after the ledger has the job. Without the
        # shield the job would be there without a driver and without an entry that holds its name.
        accepting = asyncio.create_task(self._accept(job, request, storage), name=f"submission of job {job}")
        self._tasks.add(accepting)
        if key is not None:
            self._accepting[key] = accepting
        accepting.add_done_callback(partial(self._forget_submission, key))
        return await asyncio.shield(accepting)

    def _forget_submission(self, key: str | None, task: asyncio.Task[str]) -> None:
        self._tasks.discard(task)
        if key is not None:
            self._accepting.pop(key, None)
        if not task.cancelled():
            # the client has received this exception if it is still connected; reading it here keeps asyncio from
            # logging it as unhandled
            task.exception()

    async def _accept(self, job: str, request: Request, storage: JobStorage) -> str:
        is_written = False
        try:
            submission, setup = await self._prepare(request, job, storage)
            # set before the write: a write that fails may still have reached the disk
            is_written = True
            await self._stored.call(partial(self._store.add, submission))
        except BaseException:
            storage.close()
            self.handle(on.SubmitFailed(job, is_written))
            raise
        effects = self._registry.handle(on.SubmitKept(job))
        entry = self._registry.jobs[job]
        self._known[job] = KnownJob(submission, JobHistory(), storage, entry, setup=setup)
        self._perform_all(effects)
        return job

    async def _prepare(self, request: Request, job: str, storage: JobStorage) -> tuple[JobSubmission, JobSetup]:
        """Does everything that may fail, before the job is written."""
        asked = request.asked
        wished = partial(wished_origin, asked, request.plans, request.parallelism, self._clock.now_ms())
        origin = await storage.ask(wished, url=asked.from_savepoint)
        code = await storage.ask(partial(ship_code, asked, storage.url), limit_s=SHIP_S)
        submission = JobSubmission(
            job=job,
            name=request.model.name,
            pipeline=asked.file_form(),
            options=options_of(request, origin, code),
            submitted_at_ms=self._clock.now_ms(),
            storage=storage.url,
        )
        return submission, self._setup(submission, Prepared(request.plans, origin, request.beginning))

    def _setup(self, submission: JobSubmission, prepared: Prepared) -> JobSetup:
        return self._surroundings.setup(submission, prepared, self._store.folder(submission.job), term=self._store.term)

    # ---- effects -------------------------------------------------------------------------------------------------

    def _perform_all(self, effects: list[do.Effect]) -> None:
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: do.Effect) -> None:  # noqa: PLR0912 - one line an effect
        match effect:
            case do.Try(job, number, delay_s):
                known = self._known[job]
                known.trying = asyncio.create_task(
                    self._try(known, number, delay_s), name=f"try {number} to resume job {job}"
                )
            case do.AbandonTry(job):
                self._abandon_try(self._known[job])
            case do.Drive(job, stops):
                self._drive(self._known[job], stops)
            case do.PostStop(job, stop):
                self._post_stop(self._driver(job), stop)
            case do.WatchStop(job, stop):
                self._stops_due.watch(stop, partial(self._on_stop_due, self._known[job], stop.request))
            case do.PostCancel(job, request):
                self._driver(job).post(machine_events.CancelAsked(request))
            case do.Suspend(job):
                self._driver(job).post(machine_events.Suspend("the coordinator ends"))
            case do.KeepEnd(job, end, delay_s):
                known = self._known[job]
                known.keeping = self._spawn(self._keep_end(known, end, delay_s))
            case do.WithdrawEnd(job, delay_s):
                self._spawn(self._withdraw_end(self._known[job], delay_s))
            case do.Discard(job, delay_s):
                self._spawn(self._discard(job, delay_s))
            case do.Answer(request, path, failure, note):
                self._triggers.answer(request, path, failure, note)
                # a coordinator that ends fails what is in progress; the next one goes on with it
                if failure is None or not self._leaving:
                    self.keep_trigger(request)
            case do.Progress(request, text):
                self._triggers.progress(request, text)
            case do.Forget(job):
                self._known.pop(job, None)
            case _:
                assert_never(effect)

    def _driver(self, job: str) -> JobDriver:
        driver = self._known[job].driver
        assert driver is not None, "the registry asks only drivers that there are"
        return driver

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            LOG.error("%s", error, exc_info=error)

    # ---- tries ---------------------------------------------------------------------------------------------------

    async def _try(self, known: KnownJob, number: int, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        event = await self._tried(known, number)
        known.tried.set()
        self.handle(event)
        self.let_go_of_storage(known)

    async def _tried(self, known: KnownJob, number: int) -> on.TryReady | on.TryAway | on.TryHopeless:
        submission = known.submission
        try:
            plans = await self.blocking(partial(plans_at, submission.pipeline, submission.options.parallelism))
            origin = await known.storage.ask(partial(earlier_origin, submission, plans))
            known.setup = self._setup(submission, Prepared(plans, origin, Beginning.RESUMED))
        except (UserError, ExternalError) as error:
            if not error.retry:
                return self._hopeless(known, number, error)
            LOG.warning("job %s cannot go on: %s; trying again", known.job, error)
            return on.TryAway(known.job, number, error.message)
        except Exception as error:
            # an unexpected error of one job must not stop the others from being resumed
            return self._hopeless(known, number, error)
        return on.TryReady(known.job, number)

    def _hopeless(self, known: KnownJob, number: int, error: Exception) -> on.TryHopeless:
        LOG.error("job %s cannot go on", known.job, exc_info=error)
        return on.TryHopeless(known.job, number, _text(error))

    def _abandon_try(self, known: KnownJob) -> None:
        if known.trying is not None:
            known.trying.cancel()
            known.trying = None
        known.tried.set()
        known.storage.close()

    # ---- drivers -------------------------------------------------------------------------------------------------

    def _drive(self, known: KnownJob, stops: tuple[on.Stop, ...]) -> None:
        try:
            self._start_driver(known)
        except Exception as error:
            LOG.exception("job %s cannot be driven", known.job)
            known.driver = None
            self.handle(on.DriveFailed(known.job, _text(error)))
            return
        for stop in stops:
            self._post_stop(self._driver(known.job), stop)

    def _start_driver(self, known: KnownJob) -> None:
        setup, known.setup = known.setup, None
        assert setup is not None, "a try, or the submission, has prepared it"
        if known.log is not None:
            known.log.close()  # the log of an earlier driver
        known.log = JobLog(known.job, self._store.folder(known.job))
        watch = JobWatch(
            changed=partial(self._on_changed, known),
            answered=partial(self._on_answered, known.job),
            ended=partial(self._on_ended, known),
        )
        known.driver = JobDriver(setup, self._fleet, known.storage.threads, watch, self._clock, known.history)
        known.driver.start()

    def _post_stop(self, driver: JobDriver, stop: on.Stop) -> None:
        folder = None if stop.directory is None else self.savepoint_folder(driver, stop.directory)
        driver.post(machine_events.StopAsked(stop.request, folder, stop.drain, self._stops_due.left_ms(stop)))

    def _on_stop_due(self, known: KnownJob, request: str) -> None:
        entry = known.entry
        note = f"ended without a last checkpoint: {entry.waits_for}; what goes on from its checkpoint needs --take-over"
        path = known.submission.storage if known.history.attempts else None
        self.handle(on.StopDue(known.job, request, path, note))

    def _on_changed(self, known: KnownJob, driver: JobDriver) -> None:
        if driver.history is not known.history:
            known.history = driver.history
            self._spawn(self._stored.call(partial(self._store.save_history, known.job, driver.history)))

    def _on_answered(self, job: str, request: str, path: str | None, failure: Failure | None, note: str | None) -> None:
        self.handle(on.Answered(job, request, path, failure, note))

    def _on_ended(self, known: KnownJob, driver: JobDriver, ended: machine_effects.Ended) -> None:
        known.driver = None
        self._spawn(self._after_driver(known, driver))
        # the machine failed: the next driver continues the job from the journal
        if driver.broken is not None:
            known.history = driver.history
            message = "its state machine failed; another one begins in a moment"
            known.last = job_status.left_status(known.submission, known.history, message, driver.broken)
            again = not isinstance(driver.setup.config.restart, NoRestart)
            self.handle(on.MachineFailed(known.job, driver.broken, again))
            return
        known.last = self._last_status(known, driver)
        end = None
        if ended.state is not JobState.SUSPENDED:
            end = on.End(end_state(ended.state), ended.savepoint, ended.failure)
        again = is_of_earlier_term(driver.replaced_by, self._store.term)
        self.handle(on.DriverEnded(known.job, end, again))

    def _last_status(self, known: KnownJob, driver: JobDriver) -> JobStatus | None:
        try:
            known.checkpoints = driver.checkpoints
            return running_status(known.submission, driver, self._clock.now_ms())
        except Exception:
            # the job has ended even if its last status cannot be computed
            LOG.exception("job %s: how it stood at its end is unknown", known.job)
            return None

    async def _after_driver(self, known: KnownJob, driver: JobDriver) -> None:
        """Waits for the driver's last records, then releases the job's storage."""
        await driver.closed()
        self.let_go_of_storage(known)

    # ---- the job store -------------------------------------------------------------------------------------------

    async def _keep_end(self, known: KnownJob, end: on.End, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        now_ms = self._clock.now_ms()
        result = JobResult(state=end.state, ended_at_ms=now_ms, savepoint=end.savepoint, failure=end.failure)
        try:
            forgotten = await self._stored.call(partial(self._store.end, known.job, result))
        except Exception as error:
            LOG.warning("the end of job %s (%s) cannot be recorded: %s", known.job, end.state, error)
            self.handle(on.EndNotKept(known.job, failure_of(error)))
            return
        known.result = result
        if known.log is not None:
            known.log.close()
        self.handle(on.EndKept(known.job, forgotten))

    async def _withdraw_end(self, known: KnownJob, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        try:
            await self._stored.call(partial(self._store.withdraw_end, known.job))
        except Exception as error:
            LOG.warning("whether an end of job %s is recorded is unknown: %s", known.job, error)
            self.handle(on.EndNotWithdrawn(known.job, failure_of(error)))
        else:
            self.handle(on.EndWithdrawn(known.job))

    async def _discard(self, job: str, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        try:
            await self._stored.call(partial(self._store.discard, job))
        except Exception as error:
            LOG.warning("job %s was refused, and may be on disk all the same: %s", job, error)
            self.handle(on.NotDiscarded(job))
        else:
            self.handle(on.Discarded(job))


def _read(stored: StoredJob) -> on.ReadJob:
    result = stored.result
    end = None if result is None else on.End(result.state, result.savepoint, result.failure)
    return on.ReadJob(stored.submission.job, stored.submission.name, end)


def _text(error: Exception) -> str:
    return error.message if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"
