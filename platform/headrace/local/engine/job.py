"""One job on this host: the slices of a physical plan, all in this process, run to its end.

    start: sinks prepared, splits found ─> slices open ─> splits assigned ─> one thread a subtask
    while it runs: the caller's thread supervises: idle heights, new splits, epochs, progress
    end: all input ended ─> last epoch ─> commit ─> subtasks leave ─> close
    a thread failed ─> cancel all ─> close ─> raise its error

`worker.slot.slice` runs the subtasks, `execution.connectors` has the enumerators and committers.
`local.engine.subtask_epochs` decides when an epoch is due and when it is complete, `execution.idle_times` the heights
of idle partitions.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from enum import StrEnum

from headrace.checkpoint.manifest import SplitDocument, learned_of
from headrace.connect.format import PreparedFormats
from headrace.coordinator.figures.data_warnings import DataWarnings
from headrace.coordinator.figures.job_figures import JobFigures
from headrace.coordinator.figures.standing_time import Waiting
from headrace.coordinator.figures.watched_plan import watched_plan
from headrace.core.clock import Clock, SystemClock
from headrace.core.errors import ExternalError
from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.core.source_state import AppliedFloor
from headrace.exchange.mailbox import ChannelBounds, TaskCancelledError
from headrace.exchange.output import Channel
from headrace.execution.connectors import JobConnectors
from headrace.execution.discovered import DiscoveredSource
from headrace.execution.drift_limits import drift_limits, lesser, pressure_limits
from headrace.execution.epochs import Pending, Stage
from headrace.execution.format_preparation import prepare_formats
from headrace.execution.idle_times import relayed_heights
from headrace.execution.split_assignment import assign_splits
from headrace.local.engine.subtask_epochs import Reports, SubtaskEpochs, SubtaskId
from headrace.plan.physical import PhysicalPlan, SinkSpec, SourceSpec, Task
from headrace.plan.totals import row_totals
from headrace.worker.control import (
    Assign,
    AssignedSplit,
    Command,
    Complete,
    Limit,
    Relay,
    StopReading,
    SubtaskEvents,
    Trigger,
)
from headrace.worker.slot.slice import Slice, SliceOptions
from headrace.worker.slot.status_report import StatusReport
from headrace.worker.state.opened_place import opened_place
from headrace.worker.task.source_task import SourceTask
from headrace.worker.wiring import wire

SUPERVISE_MS = 50


class JobState(StrEnum):
    """The final state of a run. CANCELED: it was stopped before its sources ended."""

    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The options of a run."""

    job: str = "local"
    bounds: ChannelBounds = field(default_factory=ChannelBounds)
    watermark_interval_ms: int = 100
    floors: tuple[AppliedFloor, ...] = ()
    cancel_grace_ms: int = 30_000
    """Time limit for a subtask to end when the job is torn down; then its thread is abandoned."""
    watches_data: bool = False
    """Warnings about the data are logged."""

    def slices(self) -> SliceOptions:
        """The options of the job's slices; the caller sets the index."""
        floors, interval_ms = self.floors, self.watermark_interval_ms
        return SliceOptions(self.job, 0, watermark_interval_ms=interval_ms, floors=floors, bounds=self.bounds)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a job.

    rows_in, rows_out   rows read by sources and written by sinks
    lag                 messages that the sources are behind
    watermark           the lowest of all source subtasks (epoch ms)
    rows_queued         rows that wait in mailboxes
    running_ms          how long the subtasks of this attempt have run; 0: not yet
    attempt_in, attempt_out   rows of this attempt, as of `running_ms`
    """

    rows_in: int
    rows_out: int
    late: int
    bad: int
    lag: int
    watermark: int
    rows_queued: int
    waiting_for: tuple[str, ...] = ()
    """While the job ends or stops: sinks that still have rows to write, or threads that still run."""
    doing: str = ""
    """The job's activity before it runs, as text for users."""
    running_ms: int = 0
    attempt_in: int = 0
    attempt_out: int = 0
    waiting: tuple[Waiting, ...] = ()
    """While it runs: steps whose event time stands still."""


class LocalJob:
    """Runs a plan. `run` blocks the calling thread; `stop` may be called by any."""

    def __init__(self, plan: PhysicalPlan, options: JobOptions | None = None, clock: Clock | None = None) -> None:
        self._plan = plan
        self._options = options or JobOptions()
        self._clock = clock or SystemClock()
        self._reports = Reports()
        self._slices = slices_of(plan, self._options.slices(), self._reports, self._clock)
        self._meetings = tuple(plan.windowed().values())
        self._connectors = JobConnectors()
        self._discovery = Discovery(self._connectors, self._slices, self._reports.wake)
        self._epochs: SubtaskEpochs | None = None
        self._failure: BaseException | None = None
        self._stop_asked = False
        self._told_to_stop = False
        self._tearing_down = False
        self._finished = False
        self._running_since_ms: int | None = None
        self._watch: SliceWatch | None = None

    def stop(self) -> None:
        """Requests that the job stops reading and ends without closing windows. Never blocks and needs no lock, so a
        signal handler may call it."""
        self._stop_asked = True

    def run(self, on_progress: Callable[[Progress], None] | None = None) -> JobState:
        """Runs to the end. Raises the first error of any subtask after everything is torn down."""
        try:
            self._supervise(self._start(), on_progress)
            if self._failure is not None:
                raise self._failure
        except BaseException as error:
            for other in self._tear_down(on_progress):
                error.add_note(f"while it was torn down: {type(other).__name__}: {other}")
            raise
        for failure in self._tear_down(on_progress):
            raise failure
        return JobState.CANCELED if any(task.cut_short for task in self._source_tasks()) else JobState.FINISHED

    # ---- running -----------------------------------------------------------------------------------------------------

    def _start(self) -> SubtaskEpochs:
        formats = prepare_formats(self._plan, {})
        opened = self._connectors.open(self._plan, self._options.job)
        open_linked(self._slices, learned_of(formats))
        now_ms = self._clock.monotonic_ms()
        self._discovery.begin(opened, now_ms)
        subtasks = [(task.name, subtask) for task in self._plan.tasks for subtask in range(task.parallelism)]
        self._epochs = SubtaskEpochs(subtasks, self._plan.checkpoint.interval_ms, now_ms)
        self._running_since_ms = self._clock.monotonic_ms()
        if self._options.watches_data:
            self._watch = SliceWatch(self._plan, self._slices, self._clock)
        for part in self._slices:
            part.start(self._guard)
        return self._epochs

    def _guard(self, _task: str, run: Callable[[], None]) -> None:
        try:
            run()
        except TaskCancelledError:
            pass
        except BaseException as error:  # the shell of a task: every failure is the job's failure
            if self._failure is None:
                self._failure = error
        self._reports.wake()

    def _alive(self) -> tuple[str, ...]:
        return tuple(name for part in self._slices for name in part.alive)

    def _supervise(self, epochs: SubtaskEpochs, on_progress: Callable[[Progress], None] | None) -> None:
        while self._alive() and self._failure is None:
            for report in self._reports.take(SUPERVISE_MS):
                epochs.take(report)
            if self._stop_asked and not self._told_to_stop:
                self._told_to_stop = True
                self._tell_sources(StopReading())
            self._relay_heights()
            self._discovery.step(self._clock.monotonic_ms())
            if (pending := epochs.complete) is not None:
                self._complete(epochs, pending)
            if self._watch is not None:
                # before the last epoch begins, with which the figures end
                self._watch.look(epochs.input_left)
            epoch = epochs.begin_due(self._clock.monotonic_ms(), stopping=self._told_to_stop)
            if epoch is not None:
                self._tell_sources(Trigger(epoch))
            if on_progress is not None:
                on_progress(self.progress())

    def _tell_sources(self, command: Command) -> None:
        for task in self._source_tasks():
            task.tell(command)

    def _relay_heights(self) -> None:
        nodes = [node for task in self._plan.tasks for node in task.nodes]
        times = {node.node: node.time for node in nodes if isinstance(node, SourceSpec) and node.time is not None}
        active: dict[str, list[int | None]] = {name: [] for name in times}
        reached: dict[str, list[int | None]] = {name: [] for name in times}
        for part in self._slices:
            for name, task in part.sources.items():
                if name in times:
                    status = task.status()
                    active[name].append(status.active_height)
                    reached[name].append(status.reached)
        drifts = {name: time.max_drift_ms for name, time in times.items() if time.max_drift_ms is not None}
        heights, limits = relayed_heights(active, reached), drift_limits(active, drifts)
        if self._slices and self._slices[0].place.budget.is_pressed():
            limits = lesser(limits, pressure_limits(active, self._meetings))
        limits = dict.fromkeys(times) | limits
        for part in self._slices:
            part.tell({name: Relay(height) for name, height in heights.items()})
            part.tell({name: Limit(limit) for name, limit in limits.items()})

    def _complete(self, epochs: SubtaskEpochs, pending: Pending) -> None:
        """Commits the epoch's output, notifies writers and sources, and ends the job after the last epoch."""
        pending.stage = Stage.COMMITTING
        described = self._connectors.describe(pending.committables)
        if lost := self._connectors.commit(described):
            place = f"output of {lost[0].sink} in epoch {pending.epoch}"
            raise ExternalError(f"{place} was aborted or expired outside of this job before it was committed")
        successors = {each.name: each.successor for each in described if each.successor}
        for part in self._slices:
            part.committed(pending.epoch, successors)
        self._tell_sources(Complete(pending.epoch))
        epochs.committed(self._clock.monotonic_ms())
        if epochs.last_begun:
            self._finished = True
            for part in self._slices:
                part.finish()

    # ---- ending ------------------------------------------------------------------------------------------------------

    def _tear_down(self, on_progress: Callable[[Progress], None] | None) -> list[Exception]:
        """Ends every thread and closes every part. Returns the errors: they must not replace the job's first error."""
        self._tearing_down = True
        for part in self._slices:
            part.cancel()
        failures: list[Exception] = []

        def waiting() -> None:
            if on_progress is not None and not failures:
                try:
                    on_progress(self.progress())
                except Exception as error:  # an error of the caller's function must not stop the teardown
                    failures.append(error)

        grace_ms = self._options.cancel_grace_ms
        deadline_ms = self._clock.monotonic_ms() + grace_ms
        for part in self._slices:
            left_ms = max(0, deadline_ms - self._clock.monotonic_ms())
            for name in part.join(left_ms / 1000, waiting):
                error = ExternalError(f"subtask {name} did not end within {grace_ms / 1000:g} s and was abandoned")
                failures.append(error)
        for part in self._slices:
            failures += part.close()
        return failures + self._connectors.close_all(grace_ms)

    # ---- results -----------------------------------------------------------------------------------------------------

    def _source_tasks(self) -> list[SourceTask]:
        return [task for part in self._slices for task in part.sources.values()]

    def counters(self) -> dict[str, Counter[str]]:
        """Node name -> its counters, summed over subtasks."""
        total: dict[str, Counter[str]] = {}
        for part in self._slices:
            for opened in part.subtasks:
                for node, own in list(opened.counters.items()):
                    total.setdefault(node, Counter()).update(dict(own))
        return total

    def progress(self) -> Progress:
        """The current progress."""
        status = [task.status() for task in self._source_tasks()]
        since_ms = self._running_since_ms
        totals = row_totals(self._plan, self.counters())
        return Progress(
            *totals,
            lag=sum(each.lag for each in status),
            watermark=min((each.watermark for each in status if each.has_splits), default=TIME_MIN),
            rows_queued=sum(box.rows_queued for part in self._slices for box in part.mailboxes.values()),
            waiting_for=self._waiting_for(),
            running_ms=0 if since_ms is None else self._clock.monotonic_ms() - since_ms,
            attempt_in=totals[0],
            attempt_out=totals[1],
            waiting=() if self._watch is None or self._tearing_down else self._watch.waiting,
        )

    def _waiting_for(self) -> tuple[str, ...]:
        if self._tearing_down:
            return self._alive()
        epochs = self._epochs
        if epochs is None or self._finished:
            return ()
        left = self._tasks(epochs.input_left)
        if any(isinstance(task.nodes[0], SourceSpec) for task in left) and not self._told_to_stop:
            return ()
        waiting = self._tasks(epochs.waiting) if epochs.last_begun else left
        return tuple(sorted(node.node for task in waiting for node in task.nodes if isinstance(node, SinkSpec)))

    def _tasks(self, subtasks: frozenset[SubtaskId]) -> list[Task]:
        names = {name for name, _ in subtasks}
        return [task for task in self._plan.tasks if task.name in names]

    def applied_floors(self) -> list[AppliedFloor]:
        """Every floor that took effect in this run; a replay needs them to produce the same rows."""
        return sorted(floor for task in self._source_tasks() for floor in task.applied_floors())

    def rows_queued_max(self) -> Mapping[str, int]:
        """Task name -> the greatest number of rows that ever waited in the mailbox of one of its subtasks."""
        most: dict[str, int] = {}
        for part in self._slices:
            for task, box in part.mailboxes.items():
                most[task] = max(most.get(task, 0), box.rows_queued_max)
        return most


def slices_of(plan: PhysicalPlan, options: SliceOptions, events: SubtaskEvents, clock: Clock) -> tuple[Slice, ...]:
    """All slices of a plan by index, not yet open. `options`: for each slice; the index is set here.

    slice 0: source ──┬─> mailbox ─> sink        slice i runs subtask i of every task with more than i subtasks, as slot
                      └─────────┐                i does; it puts rows for another slice directly into a mailbox there
    slice 1: source ────────────┴─> mailbox ─> sink
    """
    count = max((task.parallelism for task in plan.tasks), default=0)
    # one place, with one budget: the slices share the memory of this process
    wiring, place = wire(plan), opened_place(plan.state, plan.max_parallelism)
    return tuple(
        Slice(plan, replace(options, index=index), events, clock, wiring=wiring, place=place) for index in range(count)
    )


def open_linked(slices: Sequence[Slice], formats: PreparedFormats | None = None) -> None:
    """Opens every subtask of all slices of a job, without state. formats: what formats have prepared."""

    def channel(task: str, subtask: int, number: int) -> Channel:
        return Channel(slices[subtask].mailboxes[task], number)

    for part in slices:
        part.open(lambda task: {}, channel, formats)


LOG = logging.getLogger("headrace.local")

LOOK_MS = 1_000
"""Shortest time between two checks before the input ends."""


class SliceWatch:
    """Logs the data warnings of one local job, by the reports that its slices would send to a coordinator.

    It is created when the subtasks begin to run, and used by one thread.
    """

    def __init__(self, plan: PhysicalPlan, slices: Sequence[Slice], clock: Clock) -> None:
        self._clock = clock
        self._plan = watched_plan(plan)
        now_ms = clock.monotonic_ms()
        self._reports = {part.index: (part, StatusReport(part, now_ms)) for part in slices}
        self._figures = JobFigures()
        self._warnings = DataWarnings()
        self._due_ms = now_ms + LOOK_MS
        self._is_over = False

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        """The steps whose time stands still."""
        return self._warnings.waiting

    def look(self, input_left: frozenset[SubtaskId]) -> None:
        """Judges the data if a look is due, or all input has just ended. input_left: subtasks that still have some."""
        now_ms = self._clock.monotonic_ms()
        is_over = not input_left
        if self._is_over or (now_ms < self._due_ms and not is_over):
            return
        self._due_ms, self._is_over = now_ms + LOOK_MS, is_over
        try:
            self._judge(now_ms, input_left)
        except Exception:
            # warnings are for people: the job must not end for their sake
            LOG.exception("the data cannot be judged")

    def _judge(self, now_ms: int, input_left: frozenset[SubtaskId]) -> None:
        statuses = []
        for index, (part, report) in self._reports.items():
            ended = frozenset(task.name for task in part.tasks if (task.name, index) not in input_left)
            status = report.report(now_ms, ended, due=False)
            assert status is not None, "it is not made because it is due"
            self._figures.take(index, status)
            statuses.append(status)
        for each in self._warnings.judge(self._plan, self._figures, statuses, self._clock.now_ms()):
            LOG.warning("%s", each.text)


# ---- discovery of splits ---------------------------------------------------------------------------------------------


RETRY_MS = 5_000
"""Pause after a discovery that failed because the external system did not answer."""

Splits = tuple[SplitDocument, ...]


@dataclass(slots=True)
class _Source:
    opened: DiscoveredSource
    known: frozenset[tuple[str, int]] = frozenset()
    due_ms: int = TIME_MAX
    look: Future[Splits] | None = None


class Discovery:
    """Assigns the splits of all sources. Used by the thread that supervises the job."""

    def __init__(self, connectors: JobConnectors, slices: Sequence[Slice], wake: Callable[[], None]) -> None:
        """`wake` is called, in another thread, when a discovery has ended."""
        self._connectors = connectors
        self._slices = slices
        self._wake = wake
        self._sources: dict[str, _Source] = {}

    def begin(self, opened: Mapping[str, DiscoveredSource], now_ms: int) -> None:
        """Assigns the splits that the enumerators found when they were opened."""
        for name, found in opened.items():
            self._sources[name] = _Source(found)
            self._assign(name, found.splits, now_ms)

    def step(self, now_ms: int) -> None:
        """Starts the discoveries that are due, and assigns the new splits of those that have ended."""
        for name, source in self._sources.items():
            if source.look is None and now_ms >= source.due_ms:
                source.look = self._look(name)
            elif source.look is not None and source.look.done():
                look, source.look = source.look, None
                try:
                    self._assign(name, look.result(), now_ms)
                except ExternalError:
                    # assigned splits do not depend on the answer, so the job goes on and the discovery is retried
                    source.due_ms = now_ms + RETRY_MS

    def _look(self, source: str) -> Future[Splits]:
        """Starts a discovery in its own daemon thread, so that an unreachable broker delays neither the job nor its
        end."""
        look: Future[Splits] = Future()
        look.add_done_callback(lambda _: self._wake())

        def run() -> None:
            try:
                look.set_result(self._connectors.discover(source))
            except BaseException as error:  # the shell of a thread: `result` raises it
                look.set_exception(error)

        threading.Thread(target=run, name=f"discover-{source}", daemon=True).start()
        return look

    def _assign(self, name: str, splits: Splits, now_ms: int) -> None:
        """Assigns new splits to their subtasks. The first Assign goes to every subtask, also to one without a split,
        because `final` must reach all of them."""
        source = self._sources[name]
        readers = [part for part in self._slices if name in part.sources]
        fresh = [split for split in splits if (split.topic, split.partition) not in source.known]
        first = not source.known
        source.known |= {(split.topic, split.partition) for split in fresh}
        final, interval_ms = source.opened.final, source.opened.interval_ms
        source.due_ms = TIME_MAX if final or interval_ms is None else now_ms + interval_ms
        for reader, own in zip(readers, assign_splits(fresh, None, len(readers)), strict=True):
            if own or first:
                reader.tell({name: Assign(tuple(AssignedSplit(each.split.split()) for each in own), final)})
