"""Drives one job: passes events to its machine, executes the effects, keeps the job's history and newest checkpoint.

    `attempt_slots` ────────┐                                  ┌── `attempt_slots`: deploy, send, release
    journal, store ─────────┼─> queue ─> machine ─> effects ───┼── storage queue: records, savepoints, pruning
    connector host ─────────┤                                  ├── host: open, discover, commit, fence
    users' requests, time ──┘                                  └── answers, history, log

Shell: it decides nothing. It is one task of the event loop; blocking work runs in the storage queue's threads.

No exception is lost. An effect that raises ends in its failure event (`failure_event`). A machine that raises is
never called again, because its memory cannot be trusted (`broken`). Then the driver writes no further record, fails
every open request, and ends; the job's next driver starts with a new machine, which reads the journal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, assert_never

from headrace.checkpoint.journal.records import CheckpointRecord, Record
from headrace.checkpoint.savepoints.savepoint import write_savepoint
from headrace.coordinator.connector_host.connector_host import ConnectorHost
from headrace.coordinator.connector_host.lifecycle import JobHost
from headrace.coordinator.driver.attempt_slots import AttemptSlots
from headrace.coordinator.driver.data_watch import DataWatch
from headrace.coordinator.driver.job_journal import Checkpointed, JobJournal, JournalWatch
from headrace.coordinator.driver.job_setup import JobSetup
from headrace.coordinator.driver.storage_queue import StorageQueue
from headrace.coordinator.figures.checkpoint_log import CheckpointLog
from headrace.coordinator.figures.job_figures import JobFigures
from headrace.coordinator.fleet.fleet import Fleet
from headrace.coordinator.job import effects as do
from headrace.coordinator.job import events as on
from headrace.coordinator.job.effects import failure_event
from headrace.coordinator.job.history import STOPPED, JobHistory
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.journaling import draft_of
from headrace.coordinator.job.machine import Machine
from headrace.coordinator.provisioning.slot_pool import PooledSlot
from headrace.core.clock import Clock
from headrace.core.errors import Domain, HeadraceError, InternalError
from headrace.rpc.failure import concealed_failure, failure_of
from headrace.rpc.messages import Failure
from headrace.rpc.status import SlotStatus

LOG = logging.getLogger("headrace.coordinator")

EVENTS_MAX = 100_000
LEAVING_PATIENCE_S = 10.0
"""How long unreachable storage may delay the end of a job, in seconds."""
SAVEPOINT_PATIENCE_S = 60.0
"""How long an unreachable savepoint folder may delay the job's own records, in seconds."""
_LEAVING = frozenset({JobState.CANCELLING, JobState.FAILING, JobState.SUSPENDED})


@dataclass(slots=True)
class JobWatch:
    """Callbacks of a job's driver to the dispatcher. Called in the loop.

    changed    the job's state or history has changed
    answered   a request of a user is answered: its id, the path, the failure and the note, or None for each
    ended      the driver has ended; no callback follows
    """

    changed: Callable[[JobDriver], None]
    answered: Callable[[str, str | None, Failure | None, str | None], None]
    ended: Callable[[JobDriver, do.Ended], None]


class JobDriver:
    """Drives one job in this coordinator. `post` may only be called in the loop."""

    def __init__(
        self, setup: JobSetup, fleet: Fleet, executor: Executor, watch: JobWatch, clock: Clock, history: JobHistory
    ) -> None:
        self._setup = setup
        self._fleet = fleet
        self._watch = watch
        self._clock = clock
        self.machine = Machine(setup.config)
        self.history = history
        self.broken: Failure | None = None
        """The failure of the machine or of this driver after which the machine is not called any more; None: none."""
        self._events: asyncio.Queue[on.Event] = asyncio.Queue(EVENTS_MAX)
        self._overflowed = False
        self._requested: do.Describe | do.Commit | do.Fence | None = None
        """The newest request to the committers."""
        self._asked: set[str] = set()
        """Ids of user requests that are not answered yet."""
        self._storage = StorageQueue(executor, f"job {setup.config.job}")
        self._journal = JobJournal(setup, self._storage, clock, JournalWatch(self.post, self._on_written))
        self._tasks: set[asyncio.Task[None]] = set()
        self._releasing: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self.over = asyncio.Event()
        folder = setup.log_folder
        log = None if folder is None else folder / "connector-host.log"
        self.attempt_slots = AttemptSlots(setup, fleet, self.post, self._is_deploying)
        self.data = DataWatch(self.job, setup.plans, clock)
        """The warnings about the job's data."""
        self._host = JobHost(self.job, setup.environment, log, self.post, self.over, setup.starter)

    @property
    def job(self) -> str:
        """The job's id."""
        return self._setup.config.job

    @property
    def setup(self) -> JobSetup:
        """The job's fixed facts."""
        return self._setup

    @property
    def slots(self) -> tuple[PooledSlot, ...]:
        """The attempt's slots by index, once they are granted."""
        return self.attempt_slots.slots

    @property
    def statuses(self) -> Mapping[int, SlotStatus]:
        """The last report of each of the attempt's slots, by index."""
        return self.attempt_slots.statuses

    @property
    def figures(self) -> JobFigures:
        """The figures of the attempt's slots."""
        return self.attempt_slots.figures

    @property
    def checkpoints(self) -> CheckpointLog:
        """The checkpoints that this driver has triggered."""
        return self.attempt_slots.checkpoints

    @property
    def checkpoint(self) -> Checkpointed | None:
        """The newest complete checkpoint."""
        return self._journal.checkpoint

    @property
    def message(self) -> str:
        """The text that users see about the current wait: trouble of the storage queue, else the machine's message."""
        return self._storage.trouble or self.machine.view.message

    @property
    def replaced_by(self) -> str | None:
        """The writer that has continued the journal, as far as this driver knows; its own name if none has."""
        return self._journal.replaced_by

    def start(self) -> None:
        """Starts the loop and joins the fleet."""
        self._fleet.join(self.job, self.attempt_slots)
        self._task = asyncio.create_task(self._run(), name=f"job {self.job}")

    async def closed(self) -> None:
        """Waits until the loop and everything that it started have ended."""
        if self._task is not None:
            await self._task

    def post(self, event: on.Event) -> None:
        """Queues an event for the machine. A request that arrives after the job is over is answered at once."""
        if isinstance(event, on.Asked):
            self._asked.add(event.request)
        if self.over.is_set():
            self._on_late(event)
            return
        try:
            self._events.put_nowait(event)
        except asyncio.QueueFull:
            # The machine may wait for the lost event without a time limit. So `_run` abandons the machine.
            self._overflowed = True

    # ---- the loop ------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while not self.over.is_set():
                event = await self._next()
                # checked here and not in `post`, because only this loop may abandon the machine
                if self._overflowed:
                    raise InternalError(f"more than {EVENTS_MAX} events waited for the state machine of job {self.job}")
                self._handle(event)
        except Exception as error:
            LOG.exception("the state machine of job %s failed", self.job)
            self._abandon(self._failure_of(error))
        finally:
            if not self.over.is_set():
                self._abandon(Failure("its driver was cancelled", Domain.INTERNAL.value, retry=True))
            await self._wind_up()

    def _is_deploying(self) -> bool:
        return self.machine.state is JobState.DEPLOYING

    def _handle(self, event: on.Event) -> None:
        for effect in self.machine.handle(event, self._clock.monotonic_ms()):
            self._perform(effect)
        if isinstance(event, on.SlotReported):
            job = self.machine.job
            self.data.look(self.figures, self.statuses, event.index, job.parallelism, manifest=job.restored)

    def _abandon(self, failure: Failure) -> None:
        """Ends the driver without its machine, as SUSPENDED. Writes no record: the job's next driver continues it from
        the journal."""
        self.broken = failure
        self.history = self.history.failed(self._clock.now_ms(), self.machine.job.attempt, failure)
        for request in tuple(self._asked):
            self._perform(do.Answer(request, failure=failure))
        self._perform(do.ReleaseSlots())
        self._perform(do.Ended(JobState.SUSPENDED, None, failure, {}))

    def _on_late(self, event: on.Event) -> None:
        """Handles an event that arrives after the job is over. The machine refuses a request; if the machine has
        failed, the request fails with that failure. Other events have no effect.
        """
        if self.broken is None:
            try:
                self._handle(event)
            except Exception as error:
                LOG.exception("the state machine of job %s failed over a late event", self.job)
                self.broken = self._failure_of(error)
        if self.broken is not None and isinstance(event, on.Asked) and event.request in self._asked:
            self._perform(do.Answer(event.request, failure=self.broken))

    async def _next(self) -> on.Event:
        due_ms = self.machine.due_ms
        if due_ms is None:
            return await self._events.get()
        wait_s = (due_ms - self._clock.monotonic_ms()) / 1000
        # queued events go before a tick: otherwise the tick could time out a wait whose answer is queued already
        if not self._events.empty():
            return self._events.get_nowait()
        if wait_s <= 0:
            return on.Tick()
        try:
            async with asyncio.timeout(wait_s):
                return await self._events.get()
        except TimeoutError:
            return on.Tick()

    async def _wind_up(self) -> None:
        while not self._events.empty():
            # requests that were queued when the job ended are refused, so that every request is answered
            self._on_late(self._events.get_nowait())
        self._fleet.leave(self.job)
        # at the same time: either may wait for something that does not answer
        for result in await asyncio.gather(self._storage.close(), self._host.close(), return_exceptions=True):
            if isinstance(result, Exception):
                LOG.error("job %s: something of it did not end in order", self.job, exc_info=result)
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None], effect: do.Effect) -> asyncio.Task[None]:
        """Performs an effect in a task; if the task raises, the effect has failed."""
        task = asyncio.create_task(work, name=f"{type(effect).__name__} of job {self.job}")
        self._tasks.add(task)
        task.add_done_callback(partial(self._on_work_done, effect))
        return task

    def _on_work_done(self, effect: do.Effect, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_unperformed(effect, error)

    def _on_unperformed(self, effect: do.Effect, error: BaseException) -> None:
        LOG.error("job %s: %s failed", self.job, type(effect).__name__, exc_info=error)
        event = failure_event(effect, self._failure_of(error))
        if event is not None:
            self.post(event)

    # ---- effects -------------------------------------------------------------------------------------------------

    def _perform(self, effect: do.Effect) -> None:
        try:
            self.checkpoints.observe(effect, self.machine.job.attempt, len(self.slots), now_ms=self._clock.now_ms())
            self._do(effect)
        except Exception as error:
            self._on_unperformed(effect, error)

    def _do(self, effect: do.Effect) -> None:  # noqa: PLR0912 - one line an effect
        match effect:
            case do.ReadJournal(ticket):
                suspects = self.attempt_slots.suspects_files
                self._journal.read(ticket, had_attempts=bool(self.history.attempts), suspects_files=suspects)
            case (
                do.WriteAttempt() | do.WriteCheckpoint() | do.WriteCommitted() | do.WriteStopping() | do.WriteFinished()
            ):
                self._journal.append(effect.ticket, draft_of(effect, self._clock.now_ms()))
            case do.RequestSlots(attempt, count):
                self._fleet.request(self.job, attempt, count)
            case do.ReleaseSlots():
                releasing = self._spawn(self.attempt_slots.release(tuple(self._releasing)), effect)
                self._releasing.add(releasing)
                releasing.add_done_callback(self._releasing.discard)
            case do.OpenHost():
                self._spawn(self._host.open(self._setup.plans.file_form(self.machine.job.parallelism), effect), effect)
            case do.CloseHost():
                pass  # `_wind_up` closes the host; a task that closes it now could overtake its last responses
            case do.Discover(source):
                self._spawn(self._host.discover(source), effect)
            case do.DeploySlots():
                self.attempt_slots.deploy(effect)
            case do.Send(index, message):
                self._fleet.send(self.slots[index], message)
            case do.SendAll(message):
                for slot in self.slots:
                    self._fleet.send(slot, message)
            case do.Describe() | do.Commit() | do.Fence():
                # without a host the machine has received ConnectorHostFailed
                if (host := self._host.process) is not None and not self.over.is_set():
                    self._spawn(self._request(host, effect), effect)
            case do.Sweep(attempt):
                self._spawn(self._host.sweep(attempt), effect)
            case do.Alarm(text):
                if text is not None:
                    LOG.warning("job %s: %s", self.job, text)
                self._notify(self._watch.changed, self)
            case do.WriteSavepoint(manifest, folder):
                done = partial(self._on_saved, manifest.epoch)
                failed = partial(self._on_save_failed, manifest.epoch)
                write = partial(write_savepoint, manifest, folder)
                self._storage.put(f"writing savepoint {folder}", write, done, failed, patience_s=SAVEPOINT_PATIENCE_S)
            case do.Prune(retained):
                self._journal.prune(retained)
            case do.Answer(request, path, failure, note):
                self._asked.discard(request)
                self._notify(self._watch.answered, request, self._answer_path(path), failure, note)
            case do.RecordException(attempt, failure, follows):
                LOG.warning("job %s, attempt %d: %s; %s", self.job, attempt, failure.message, follows)
                self.history = self.history.failed(self._clock.now_ms(), attempt, failure)
                self._notify(self._watch.changed, self)
            case do.Entered(state, _):
                self._on_entered(state)
            case do.Ended():
                self._on_ended(effect)
            case _:
                assert_never(effect)

    def _notify(self, callback: Callable[..., None], *arguments: object) -> None:
        """Calls a watcher. An exception of the watcher is not a failure of the job."""
        try:
            callback(*arguments)
        except Exception:
            LOG.exception("job %s: a status callback failed", self.job)

    def _answer_path(self, path: str | None) -> str | None:
        if path is not None or self.checkpoint is not None:
            return path or (None if self.checkpoint is None else self.checkpoint.path)
        # storage has not answered since this coordinator has the job: a start from its folder finds the newest
        was_read = self._journal.was_read or not self.history.attempts
        return None if was_read else self._setup.storage

    def _on_entered(self, state: JobState) -> None:
        LOG.info("job %s (%s) is %s", self.job, self._setup.config.name, state.value)
        now_ms, job = self._clock.now_ms(), self.machine.job
        match state:
            case JobState.DEPLOYING:
                restored = job.restored.epoch if job.restored is not None and job.restored_own else None
                self.history = self.history.started(now_ms, job.attempt, job.parallelism, restored)
            case JobState.RUNNING:
                self.attempt_slots.suspects_files = False
                self.history = self.history.running(now_ms, job.attempt)
            case JobState.RESTARTING | JobState.RESCALING | JobState.CANCELLING | JobState.FAILING | JobState.FINISHED:
                # a job that was stopped and one that has read all of its input end in the same state
                stopped = state is JobState.FINISHED and job.stopped
                self.history = self.history.ended(now_ms, job.attempt, STOPPED if stopped else state.value)
            case _:
                pass
        # the job is to end: queued storage work gets a deadline, so that unreachable storage does not delay the end
        if state in _LEAVING:
            self._storage.hurry(LEAVING_PATIENCE_S)
        self._notify(self._watch.changed, self)

    def _on_ended(self, ended: do.Ended) -> None:
        self.over.set()
        if ended.state is JobState.FINISHED and self.attempt_slots.deployed:
            self._spawn(self.attempt_slots.retire(), ended)
        self._notify(self._watch.ended, self, ended)

    # ---- committers ----------------------------------------------------------------------------------------------

    async def _request(self, host: ConnectorHost, effect: do.Describe | do.Commit | do.Fence) -> None:
        """Sends the committers a request, and posts the event that the effect promises."""
        self._requested = effect
        event: on.Event | None
        try:
            match effect:
                case do.Describe(epoch, committables):
                    # not retried: nothing is decided yet, and a new attempt costs less than retries during which the
                    # writers' transactions stay open
                    event = on.Described(epoch, await host.describe(epoch, committables))
                case do.Commit(epoch, committables):
                    event = on.Committed(epoch, await host.commit(epoch, committables, self._retries(effect)))
                case do.Fence(attempt, names):
                    await host.fence(names, self._retries(effect))
                    event = on.Fenced(attempt)
                case _:
                    assert_never(effect)
        except HeadraceError as error:
            # only the error of the newest request concerns the machine
            event = failure_event(effect, self._failure_of(error)) if self._requested is effect else None
        if event is not None:
            self.post(event)

    def _retries(self, effect: do.Effect) -> Callable[[], bool]:
        """Returns whether to retry a request: until a newer one is sent, or the job is over."""
        return lambda: self._requested is effect and not self.over.is_set()

    # ---- storage -------------------------------------------------------------------------------------------------

    def _on_written(self, record: Record) -> None:
        self.checkpoints.follow(record, self._clock.now_ms())
        if isinstance(record, CheckpointRecord):
            self._notify(self._watch.changed, self)

    def _failure_of(self, error: BaseException) -> Failure:
        return concealed_failure(failure_of(error), self._setup.plans.concealment)

    def _on_saved(self, epoch: int, _: object) -> None:
        self.post(on.SavepointWritten(epoch))

    def _on_save_failed(self, epoch: int, error: Exception) -> None:
        self.post(on.SavepointFailed(epoch, self._failure_of(error)))
