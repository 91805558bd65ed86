"""One job on this host: threads, one for each subtask, that run a physical plan to its end.

    start: resolve splits ─> open subtasks, last task first ─> one thread each
    while it runs: the caller's thread supervises: idle heights, epochs, newly found splits, progress
    end: all input ended ─> last epoch ─> commit ─> subtasks leave ─> close
    a thread failed ─> cancel all ─> close ─> raise its error

The decisions are elsewhere and pure: `execution.idle_times` (idle heights), `local.engine.epochs` (what is durable).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.connect.sink import Committable, CommittedWriter, Committer
from headrace.connect.source import Enumerator, Split, SplitId
from headrace.core.clock import Clock, SystemClock
from headrace.core.errors import ExternalError
from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.core.source_state import AppliedFloor
from headrace.exchange.channel import Cancelled, ChannelBounds, Mailbox
from headrace.exchange.output import Channel
from headrace.execution.alignment import drift_limits
from headrace.execution.assignment import subtask_of
from headrace.execution.idle_times import relayed_heights
from headrace.local.engine.background import Background
from headrace.local.engine.epochs import EpochTracker, SubtaskId
from headrace.plan.contexts import sink_context, source_context
from headrace.plan.physical import PhysicalPlan, SinkSpec, SourceSpec, Task
from headrace.plan.totals import row_totals
from headrace.worker.slot.wiring import wire
from headrace.worker.state.snapshots import SubtaskSnapshots
from headrace.worker.task.build import ChainBuilder, SubtaskContext, outgoing
from headrace.worker.task.control import (
    Assign,
    AssignedSplit,
    Complete,
    Finish,
    Limit,
    Relay,
    StopReading,
    SubtaskSnapshot,
    Trigger,
)
from headrace.worker.task.source_task import SourceTask, SourceTiming
from headrace.worker.task.subtask import Subtask
from headrace.worker.task.subtask_thread import SubtaskThread, close_all, join_all

SUPERVISE_MS = 50
DISCOVERY_RETRY_MS = 5_000


class JobState(StrEnum):
    """How a run ended."""

    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What a run may be told beside its plan. The defaults serve `headrace run`."""

    job: str = "local"
    bounds: ChannelBounds = field(default_factory=ChannelBounds)
    watermark_interval_ms: int = 100
    floors: tuple[AppliedFloor, ...] = ()
    cancel_grace_ms: int = 30_000
    """How long a subtask may take to leave when the job is torn down; then it is left behind."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How the job stands."""

    rows_in: int
    rows_out: int
    late: int
    bad: int
    lag: int
    watermark: int
    rows_queued: int
    waiting_for: tuple[str, ...] = ()
    """Once the job ends or was asked to: sinks that still have rows to write out, or subtasks that still run."""
    doing: str = ""
    """What the job does before it runs, for people."""


@dataclass(slots=True)
class _Source:
    spec: SourceSpec
    enumerator: Enumerator
    tasks: list[SourceTask]
    known: set[SplitId]
    discover_due_ms: int
    looking: Background[Sequence[Split]] | None = None


@dataclass(slots=True)
class _Reports:
    """What subtasks report crosses threads here: the pure tracker behind a lock. `wake`: the supervisor's bell."""

    tracker: EpochTracker
    wake: threading.Event
    lock: threading.Lock = field(default_factory=threading.Lock)

    def snapshotted(self, snapshot: SubtaskSnapshot) -> None:
        with self.lock:
            subtask = (snapshot.task, snapshot.subtask)
            self.tracker.snapshotted(subtask, snapshot.epoch, snapshot.committables)
        self.wake.set()

    def input_ended(self, task: str, subtask: int) -> None:
        with self.lock:
            self.tracker.input_ended((task, subtask))
        self.wake.set()


class LocalJob:
    """Runs a plan. `run` blocks the calling thread; `stop` may be called by any."""

    def __init__(self, plan: PhysicalPlan, options: JobOptions | None = None, clock: Clock | None = None) -> None:
        self._plan = plan
        self._options = options or JobOptions()
        self._clock = clock or SystemClock()
        self._wiring = wire(plan)
        self._sources: dict[str, _Source] = {}
        self._mailboxes: dict[str, list[Mailbox]] = {}
        self._committers: dict[str, Committer] = {}
        self._threads: list[SubtaskThread] = []
        self._subtasks: list[Subtask] = []
        self._counters: list[dict[str, Counter[str]]] = []
        self._failure: BaseException | None = None
        self._wake = threading.Event()
        self._stop_asked = False
        self._told_to_stop = False
        self._tearing_down = False
        self._last_begun = False
        self._finished = False
        subtasks = [(task.name, subtask) for task in plan.tasks for subtask in range(task.parallelism)]
        self._reports = _Reports(EpochTracker(subtasks), self._wake)

    def stop(self) -> None:
        """Asks the job to read no further and end without closing windows. Returns at once; takes no lock, so a
        signal handler may call it."""
        self._stop_asked = True

    def run(self, on_progress: Callable[[Progress], None] | None = None) -> JobState:
        """Runs to the end. Raises the first error of any subtask, after everything is torn down."""
        try:
            self._prepare()
            self._open()
            self._start()
            self._supervise(on_progress)
            if self._failure is not None:
                raise self._failure
        except BaseException as error:
            for other in self._tear_down(on_progress):
                error.add_note(f"while it was torn down: {type(other).__name__}: {other}")
            raise
        for failure in self._tear_down(on_progress):
            raise failure
        return JobState.CANCELED if any(task.cut_short for task in self._source_tasks()) else JobState.FINISHED

    # ---- opening -------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Asks the outside first, so that a missing topic is said before anything runs."""
        for task in self._plan.tasks:
            for node in task.nodes:
                if isinstance(node, SinkSpec):
                    terms = self._plan.checkpoint
                    context = sink_context(node, self._options.job, parallelism=task.parallelism, terms=terms)
                    node.config.prepare(context)
                    committer = node.config.open_committer(context)
                    if committer is not None:
                        self._committers[node.node] = committer

    def _open(self) -> None:
        self._mailboxes = {
            task: [Mailbox(count, self._options.bounds, merge_rows_max=self._plan.batch_rows_max) for count in counts]
            for task, counts in self._wiring.channels.items()
        }
        for task in reversed(self._plan.tasks):
            for subtask in range(task.parallelism):
                self._open_subtask(task, subtask)
        for source in self._sources.values():
            self._assign(source, source.enumerator.discover())

    def _open_subtask(self, task: Task, subtask: int) -> None:
        counters: dict[str, Counter[str]] = {}
        self._counters.append(counters)
        snapshots = SubtaskSnapshots(task.name, subtask, self._reports)
        context = SubtaskContext(
            pipeline=self._plan.pipeline,
            job=self._options.job,
            subtask=subtask,
            parallelism=task.parallelism,
            snapshots=snapshots,
            clock=self._clock,
            timing=SourceTiming(self._plan.batch_delay_ms, self._options.watermark_interval_ms),
            poll_rows_max=self._plan.batch_rows_max,
            floors=self._options.floors,
            counters=counters,
            terms=self._plan.checkpoint,
        )
        builder = ChainBuilder(task, context, outgoing(self._plan, self._wiring, task.name, subtask, self._channel))
        # known from the first part on: what is open when another one fails to open is closed as well
        thread = SubtaskThread(f"{task.name}-{subtask}", builder.opened)
        self._threads.append(thread)
        head = task.nodes[0]
        if isinstance(head, SourceSpec):
            source = self._source(head)
            source.tasks.append(builder.source())
            thread.run = source.tasks[-1].run
        else:
            self._subtasks.append(Subtask(self._mailboxes[task.name][subtask], builder.head(), snapshots))
            thread.run = self._subtasks[-1].run

    def _channel(self, task: str, subtask: int, number: int) -> Channel:
        return Channel(self._mailboxes[task][subtask], number)

    def _source(self, spec: SourceSpec) -> _Source:
        if spec.node not in self._sources:
            context = source_context(spec, self._plan.pipeline, self._plan.batch_rows_max)
            enumerator = spec.config.open_enumerator(context)
            self._sources[spec.node] = _Source(spec, enumerator, [], set(), 0)
        return self._sources[spec.node]

    def _source_tasks(self) -> list[SourceTask]:
        return [task for source in self._sources.values() for task in source.tasks]

    # ---- running -------------------------------------------------------------------------------------------------

    def _assign(self, source: _Source, splits: Sequence[Split]) -> None:
        """Gives splits not yet known to the subtasks they belong to, stable by topic and partition."""
        fresh = [split for split in splits if split.id not in source.known]
        first = not source.known
        source.known.update(split.id for split in fresh)
        interval = source.enumerator.discovery_interval_ms
        final = interval is None or source.spec.config.bounded
        source.discover_due_ms = TIME_MAX if final or interval is None else self._clock.monotonic_ms() + interval
        count = len(source.tasks)
        mine: list[list[Split]] = [[] for _ in range(count)]
        for split in sorted(fresh, key=lambda split: split.id):
            mine[subtask_of(split.id.topic, split.id.partition, count)].append(split)
        for task, own in zip(source.tasks, mine, strict=True):
            if own or first:
                task.tell(Assign(tuple(AssignedSplit(split) for split in own), final))

    def _start(self) -> None:
        for thread in self._threads:
            thread.start(self._guard)

    def _guard(self, run: Callable[[], None]) -> None:
        try:
            run()
        except Cancelled:
            pass
        except BaseException as error:  # the shell of a task: every failure is the job's failure
            if self._failure is None:
                self._failure = error
        self._wake.set()

    def _alive(self) -> bool:
        return any(thread.alive for thread in self._threads)

    def _supervise(self, on_progress: Callable[[Progress], None] | None) -> None:
        interval = self._plan.checkpoint.interval_ms
        barrier_due_ms = TIME_MAX if interval is None else self._clock.monotonic_ms() + interval
        while self._alive() and self._failure is None:
            self._wake.wait(SUPERVISE_MS / 1000)
            self._wake.clear()
            if self._stop_asked and not self._told_to_stop:
                self._told_to_stop = True
                self._tell_sources(StopReading())
            self._relay_heights()
            self._discover()
            self._complete_epoch()
            if interval is not None and self._clock.monotonic_ms() >= barrier_due_ms and not self._told_to_stop:
                barrier_due_ms = self._clock.monotonic_ms() + interval
                self._begin_epoch()
            self._begin_last_epoch()
            if on_progress is not None:
                on_progress(self.progress())

    def _tell_sources(self, command: StopReading | Trigger | Complete | Finish) -> None:
        for task in self._source_tasks():
            task.tell(command)

    def _relay_heights(self) -> None:
        times = {name: source.spec.time for name, source in self._sources.items() if source.spec.time is not None}
        active = {name: [task.status().active_height for task in self._sources[name].tasks] for name in times}
        drifts = {name: time.max_drift_ms for name, time in times.items() if time.max_drift_ms is not None}
        limits = drift_limits(active, drifts)
        for name, height in relayed_heights(active).items():
            for task in self._sources[name].tasks:
                task.tell(Relay(height))
                if name in limits:
                    task.tell(Limit(limits[name]))

    def _discover(self) -> None:
        """Looks for new splits now and then, in a thread: a broker that is away holds nobody up."""
        now_ms = self._clock.monotonic_ms()
        for name, source in self._sources.items():
            if source.looking is None and now_ms >= source.discover_due_ms:
                source.looking = Background(f"discover-{name}", source.enumerator.discover, self._wake.set)
            elif source.looking is not None and source.looking.done:
                looked, source.looking = source.looking, None
                try:
                    self._assign(source, looked.result())
                except ExternalError:
                    # it is asked again later: what is assigned goes on without the answer
                    source.discover_due_ms = now_ms + DISCOVERY_RETRY_MS

    def _begin_epoch(self) -> None:
        with self._reports.lock:
            if self._reports.tracker.in_flight or self._last_begun:
                return
            epoch = self._reports.tracker.begin()
        self._tell_sources(Trigger(epoch))

    def _begin_last_epoch(self) -> None:
        """Once no subtask has input left, one more barrier makes everything durable."""
        with self._reports.lock:
            tracker = self._reports.tracker
            if self._last_begun or tracker.in_flight or tracker.input_left:
                return
        self._begin_epoch()
        self._last_begun = True

    def _complete_epoch(self) -> None:
        with self._reports.lock:
            complete = self._reports.tracker.take_complete()
        if complete is not None:
            epoch, committables = complete
            self._commit(epoch, committables)
            self._tell_sources(Complete(epoch))
            if self._last_begun:
                self._leave()

    def _commit(self, epoch: int, committables: Sequence[Committable]) -> None:
        for sink, committer in self._committers.items():
            own = [item for item in committables if item.sink == sink]
            if own and committer.commit(committer.describe(own)):
                raise ExternalError(f"output of {sink} in epoch {epoch} was given up outside before it was committed")
        for thread in self._threads:
            for part in thread.parts:
                if isinstance(part, CommittedWriter):
                    part.committed(epoch, {})

    # ---- ending --------------------------------------------------------------------------------------------------

    def _leave(self) -> None:
        """Everything is committed: the subtasks may go."""
        self._finished = True
        self._tell_sources(Finish())
        for subtask in self._subtasks:
            subtask.finish()

    def _tear_down(self, on_progress: Callable[[Progress], None] | None) -> list[Exception]:
        """Ends every thread and closes every part; gives what went wrong, for the first error is another one."""
        self._tearing_down = True
        for task in self._source_tasks():
            task.cancel()
        for mailboxes in self._mailboxes.values():
            for mailbox in mailboxes:
                mailbox.cancel()
        failures: list[Exception] = []

        def waiting() -> None:
            if on_progress is not None and not failures:
                try:
                    on_progress(self.progress())
                except Exception as error:  # nothing keeps a job from being torn down
                    failures.append(error)

        join_all(self._threads, self._options.cancel_grace_ms / 1000, waiting)
        for thread in self._threads:
            if thread.alive:
                seconds = self._options.cancel_grace_ms / 1000
                failures.append(ExternalError(f"subtask {thread.name} did not end within {seconds:g} s: left behind"))
            else:
                failures += close_all(thread.parts)
        failures += self._close_enumerators()
        failures += close_all(self._committers.values())
        return failures

    def _close_enumerators(self) -> list[Exception]:
        failures: list[Exception] = []
        for name, source in self._sources.items():
            if source.looking is None or source.looking.wait(self._options.cancel_grace_ms / 1000):
                failures += close_all([source.enumerator])
            else:
                failures.append(ExternalError(f"source {name} still looks for new splits: left behind"))
        return failures

    # ---- what others may ask -------------------------------------------------------------------------------------

    def counters(self) -> dict[str, Counter[str]]:
        """Node name -> its counters, summed over subtasks."""
        total: dict[str, Counter[str]] = {}
        for counters in self._counters:
            for node, own in list(counters.items()):
                total.setdefault(node, Counter()).update(dict(own))
        return total

    def progress(self) -> Progress:
        """How the job stands now."""
        counters = self.counters()
        status = [task.status() for task in self._source_tasks()]
        return Progress(
            *row_totals(self._plan, counters),
            lag=sum(each.lag for each in status),
            watermark=min((each.watermark for each in status if each.has_splits), default=TIME_MIN),
            rows_queued=sum(box.rows_queued for boxes in self._mailboxes.values() for box in boxes),
            waiting_for=self._waiting_for(),
        )

    def _waiting_for(self) -> tuple[str, ...]:
        if self._tearing_down:
            return tuple(thread.name for thread in self._threads if thread.alive)
        with self._reports.lock:
            left, waiting = self._reports.tracker.input_left, self._reports.tracker.waiting
        sources_left = any(isinstance(self._plan.task(task).nodes[0], SourceSpec) for task, _ in left)
        if self._finished or (sources_left and not self._told_to_stop):
            return ()
        return self._sinks_of(waiting if self._last_begun else left)

    def _sinks_of(self, subtasks: frozenset[SubtaskId]) -> tuple[str, ...]:
        tasks = [self._plan.task(name) for name in {name for name, _ in subtasks}]
        return tuple(sorted({node.node for task in tasks for node in task.nodes if isinstance(node, SinkSpec)}))

    def applied_floors(self) -> list[AppliedFloor]:
        """Every floor that took effect in this run, for a rerun that gives the same rows."""
        return sorted(floor for task in self._source_tasks() for floor in task.applied_floors())

    def rows_queued_max(self) -> Mapping[str, int]:
        """Task name -> the most rows that ever waited for one of its subtasks."""
        return {name: max(box.rows_queued_max for box in boxes) for name, boxes in self._mailboxes.items()}
