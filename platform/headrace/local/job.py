"""One job on this host: threads, one for each subtask, that run a physical plan to its end.

    start: resolve splits ─> open subtasks, last task first ─> one thread each
    while it runs: the caller's thread supervises: idle heights, epochs, newly found splits, progress
    end: every thread ended ─> commit ─> close;   a thread failed ─> cancel all ─> close ─> raise its error

The decisions are elsewhere and pure: `local.relay` (idle heights), `local.epochs` (what is durable).
"""

from __future__ import annotations

import threading
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.connect.sink import Committable, Committer, Writer
from headrace.connect.source import Enumerator, Split, SplitId
from headrace.core.clock import Clock, SystemClock
from headrace.core.errors import ExternalError
from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.exchange.channel import Cancelled, ChannelBounds, Mailbox
from headrace.exchange.output import Channel, EdgeOutput
from headrace.local.epochs import EpochTracker
from headrace.local.relay import relayed_heights
from headrace.local.wiring import wire
from headrace.operators.chain import Receiver
from headrace.plan.physical import PhysicalPlan, SinkSpec, SourceSpec, Task, TaskEdge
from headrace.worker.build import ChainBuilder, SubtaskContext, sink_context, source_context
from headrace.worker.control import Assign, Complete, Relay, StopReading, Trigger
from headrace.worker.source_task import SourceTask, SourceTiming
from headrace.worker.source_time import AppliedFloor
from headrace.worker.subtask import Subtask

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


@dataclass(slots=True)
class _Source:
    spec: SourceSpec
    enumerator: Enumerator
    tasks: list[SourceTask]
    known: set[SplitId]
    discover_due_ms: int


@dataclass(slots=True)
class _Thread:
    name: str
    run: Callable[[], None]
    thread: threading.Thread | None = None


@dataclass(slots=True)
class _Sinks:
    """Acknowledgements cross threads here; the pure tracker is behind a lock."""

    tracker: EpochTracker
    lock: threading.Lock = field(default_factory=threading.Lock)

    def flushed(self, sink: str, subtask: int, epoch: int, committables: Sequence[Committable]) -> None:
        with self.lock:
            self.tracker.flushed((sink, subtask), epoch, committables)

    def ended(self, sink: str, subtask: int, committables: Sequence[Committable]) -> None:
        with self.lock:
            self.tracker.ended((sink, subtask), committables)


class LocalJob:
    """Runs a plan. `run` blocks the calling thread; `stop` may be called by any."""

    def __init__(self, plan: PhysicalPlan, options: JobOptions | None = None, clock: Clock | None = None) -> None:
        self._plan = plan
        self._options = options or JobOptions()
        self._clock = clock or SystemClock()
        self._wiring = wire(plan)
        self._sources: dict[str, _Source] = {}
        self._mailboxes: dict[str, list[Mailbox]] = {}
        self._writers: list[Writer] = []
        self._committers: dict[str, Committer] = {}
        self._threads: list[_Thread] = []
        self._counters: list[dict[str, Counter[str]]] = []
        self._failure: BaseException | None = None
        self._wake = threading.Event()
        self._stop_asked = False
        sinks = [
            (node.node, subtask)
            for task in plan.tasks
            for node in task.nodes
            if isinstance(node, SinkSpec)
            for subtask in range(task.parallelism)
        ]
        self._sinks = _Sinks(EpochTracker(sinks))

    def stop(self) -> None:
        """Asks the job to read no further and end without closing windows. Returns at once."""
        self._stop_asked = True
        self._wake.set()

    def run(self, on_progress: Callable[[Progress], None] | None = None) -> JobState:
        """Runs to the end. Raises the first error of any subtask, after everything is torn down."""
        try:
            self._prepare()
            self._open()
            self._start()
            self._supervise(on_progress)
            if self._failure is not None:
                raise self._failure
            self._finish()
        finally:
            self._tear_down()
        return JobState.CANCELED if self._stop_asked else JobState.FINISHED

    # ---- opening -------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Asks the outside first, so that a missing topic is said before anything runs."""
        for task in self._plan.tasks:
            for node in task.nodes:
                if isinstance(node, SinkSpec):
                    context = sink_context(node, self._options.job, 0, task.parallelism)
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
        context = SubtaskContext(
            pipeline=self._plan.pipeline,
            job=self._options.job,
            subtask=subtask,
            parallelism=task.parallelism,
            acks=self._sinks,
            clock=self._clock,
            timing=SourceTiming(self._plan.batch_delay_ms, self._options.watermark_interval_ms),
            poll_rows_max=self._plan.batch_rows_max,
            floors=self._options.floors,
            counters=counters,
        )
        builder = ChainBuilder(task, context, self._outgoing(task, subtask))
        name = f"{task.name}-{subtask}"
        head = task.nodes[0]
        try:
            if isinstance(head, SourceSpec):
                source = builder.source()
                self._add_source(head, source)
                self._threads.append(_Thread(name, source.run))
            else:
                mailbox = self._mailboxes[task.name][subtask]
                self._threads.append(_Thread(name, Subtask(mailbox, builder.head()).run))
        finally:
            self._writers += builder.writers

    def _outgoing(self, task: Task, subtask: int) -> dict[tuple[str, str], list[Receiver]]:
        outgoing: dict[tuple[str, str], list[Receiver]] = {}
        for edge in self._plan.edges:
            if edge.from_task == task.name:
                outgoing.setdefault((edge.source, edge.output), []).append(self._edge_output(edge, subtask))
        return outgoing

    def _edge_output(self, edge: TaskEdge, subtask: int) -> EdgeOutput:
        sender = self._wiring.senders[edge, subtask]
        boxes = self._mailboxes[edge.to_task]
        channels = {target: Channel(boxes[target], number) for target, number in sender.channels.items()}
        return EdgeOutput(sender.partitioner, channels, columns=edge.columns, order_columns=edge.order_columns)

    def _add_source(self, spec: SourceSpec, task: SourceTask) -> None:
        if spec.node not in self._sources:
            context = source_context(spec, self._plan.pipeline, self._plan.batch_rows_max)
            enumerator = spec.config.open_enumerator(context)
            self._sources[spec.node] = _Source(spec, enumerator, [], set(), 0)
        self._sources[spec.node].tasks.append(task)

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
            mine[(zlib.crc32(split.id.topic.encode()) + split.id.partition) % count].append(split)
        for task, own in zip(source.tasks, mine, strict=True):
            if own or first:
                task.tell(Assign(tuple(own), final))

    def _start(self) -> None:
        for item in self._threads:
            item.thread = threading.Thread(target=self._guard, args=(item.run,), name=item.name, daemon=True)
        for item in self._threads:
            assert item.thread is not None
            item.thread.start()

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
        return any(item.thread is not None and item.thread.is_alive() for item in self._threads)

    def _supervise(self, on_progress: Callable[[Progress], None] | None) -> None:
        interval = self._plan.checkpoint_interval_ms
        barrier_due_ms = TIME_MAX if interval is None else self._clock.monotonic_ms() + interval
        told_to_stop = False
        while self._alive() and self._failure is None:
            self._wake.wait(SUPERVISE_MS / 1000)
            self._wake.clear()
            if self._stop_asked and not told_to_stop:
                told_to_stop = True
                self._tell_sources(StopReading())
            self._relay_heights()
            self._discover()
            self._complete_epoch()
            if interval is not None and self._clock.monotonic_ms() >= barrier_due_ms and not told_to_stop:
                barrier_due_ms = self._clock.monotonic_ms() + interval
                self._begin_epoch()
            if on_progress is not None:
                on_progress(self.progress())

    def _tell_sources(self, command: StopReading | Trigger | Complete) -> None:
        for source in self._sources.values():
            for task in source.tasks:
                task.tell(command)

    def _relay_heights(self) -> None:
        status = {name: [task.status() for task in source.tasks] for name, source in self._sources.items()}
        timed = {name for name, source in self._sources.items() if source.spec.time is not None}
        heights = relayed_heights(
            {name: [each.active_height for each in subtasks] for name, subtasks in status.items() if name in timed}
        )
        for name, height in heights.items():
            for task in self._sources[name].tasks:
                task.tell(Relay(height))

    def _discover(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for source in self._sources.values():
            if now_ms >= source.discover_due_ms:
                try:
                    self._assign(source, source.enumerator.discover())
                except ExternalError:
                    # a broker that is away now is asked again later: what is assigned goes on without the answer
                    source.discover_due_ms = now_ms + DISCOVERY_RETRY_MS

    def _begin_epoch(self) -> None:
        with self._sinks.lock:
            if self._sinks.tracker.in_flight:
                return
            epoch = self._sinks.tracker.begin()
        self._tell_sources(Trigger(epoch))

    def _complete_epoch(self) -> None:
        with self._sinks.lock:
            complete = self._sinks.tracker.take_complete()
        if complete is not None:
            epoch, committables = complete
            self._commit(committables)
            self._tell_sources(Complete(epoch))

    def _commit(self, committables: Sequence[Committable]) -> None:
        for sink, committer in self._committers.items():
            own = [item for item in committables if item.sink == sink]
            if own:
                committer.commit(own)

    # ---- ending --------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        self._complete_epoch()
        self._commit(self._sinks.tracker.take_last())
        for source in self._sources.values():
            for task in source.tasks:
                task.commit_final()

    def _tear_down(self) -> None:
        for source in self._sources.values():
            for task in source.tasks:
                task.cancel()
        for mailboxes in self._mailboxes.values():
            for mailbox in mailboxes:
                mailbox.cancel()
        for item in self._threads:
            if item.thread is not None:
                item.thread.join()
        for source in self._sources.values():
            for task in source.tasks:
                task.close()
            source.enumerator.close()
        for writer in self._writers:
            writer.close()
        for committer in self._committers.values():
            committer.close()

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
        sinks = {
            node.node
            for task in self._plan.tasks
            for node in task.nodes
            if isinstance(node, SinkSpec) and not node.implicit
        }
        status = [task.status() for source in self._sources.values() for task in source.tasks]
        return Progress(
            rows_in=sum(counters.get(name, Counter())["rows_in"] for name in self._sources),
            rows_out=sum(counters.get(name, Counter())["rows_out"] for name in sinks),
            late=sum(own["late"] for own in counters.values()),
            bad=sum(own["bad"] for own in counters.values()),
            lag=sum(each.lag for each in status),
            watermark=min((each.watermark for each in status if each.has_splits), default=TIME_MIN),
            rows_queued=sum(box.rows_queued for boxes in self._mailboxes.values() for box in boxes),
        )

    def applied_floors(self) -> list[AppliedFloor]:
        """Every floor that took effect in this run, for a rerun that gives the same rows."""
        return sorted(
            floor for source in self._sources.values() for task in source.tasks for floor in task.applied_floors()
        )

    def rows_queued_max(self) -> Mapping[str, int]:
        """Task name -> the most rows that ever waited for one of its subtasks."""
        return {name: max(box.rows_queued_max for box in boxes) for name, boxes in self._mailboxes.items()}
