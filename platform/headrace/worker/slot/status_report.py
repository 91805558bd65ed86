"""Status reports of a slice, made a few times a second. Computes each ratio over the time between two reports.

A coordinator acts at once on the heights in a report, and shows the rest to users. Where heights are relayed a report
is due ten times a second, so that time advances; `DueReports` leaves out those that say nothing new."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headrace.connect.sink import TransactionsWriter
from headrace.core.reporting import reported
from headrace.core.signals import TIME_MIN
from headrace.plan.physical import PhysicalPlan, SinkSpec, SourceSpec, TaskNode
from headrace.rpc.figures import (
    FIGURES_INTERVAL_MS,
    PARTITIONS_MAX,
    TRANSACTIONS_MAX,
    KeyFigures,
    LateFigures,
    NodeFigures,
    NodeStateFigures,
    PartitionFigures,
    SlotFigures,
    SourceFigures,
    StateFigures,
    TimeFigures,
    TransactionFigures,
    WindowFigures,
)
from headrace.rpc.status import SlotStatus, SourceSubtaskStatus, SubtaskStatus
from headrace.state.place import StatePlace
from headrace.worker.control import PartitionStatus
from headrace.worker.slot.slice import OpenSubtask, Slice
from headrace.worker.task.source_task import SourceTask
from headrace.worker.task.subtask import Subtask


def report_interval_ms(plan: PhysicalPlan) -> int:
    """The time between two status reports of a slot of this plan."""
    times = [node.time for task in plan.tasks for node in task.nodes if isinstance(node, SourceSpec)]
    relayed = any(
        time is not None and (time.idle_after_ms is not None or time.max_drift_ms is not None) for time in times
    )
    return TIMED_INTERVAL_MS if relayed else INTERVAL_MS


@dataclass(slots=True)
class _Times:
    """How a subtask has spent its time until the last report, in ms. waited: for input, as its loop measures it."""

    waited: float = 0.0
    busy: float = 0.0
    idle: float = 0.0
    backpressured: float = 0.0


class StatusReport:
    """Makes the reports of one slice. Used by one thread."""

    def __init__(self, running: Slice, now_ms: int) -> None:
        self._running = running
        self._began_ms = self._before_ms = now_ms
        self._times: dict[str, _Times] = {}
        self._reports = DueReports(report_interval_ms(running.plan))
        self._figures_due_ms = now_ms
        self._pressed = False

    def begin(self, now_ms: int) -> None:
        """The subtasks begin to run: figures count from here on."""
        self._began_ms = self._before_ms = self._figures_due_ms = now_ms

    def report(self, now_ms: int, ended: frozenset[str], *, due: bool) -> SlotStatus | None:
        """The status now; None if it is only due, and says nothing new.

        `now_ms`: monotonic; `ended`: tasks whose input has ended."""
        sources = tuple(_source(each) for each in self._running.subtasks if each.source is not None)
        self._pressed = self._running.place.budget.is_pressed()
        if due and not self._reports.is_news(sources, now_ms):
            return None
        self._reports.made(sources, now_ms)
        past_ms = max(now_ms - self._before_ms, 1)
        self._before_ms = now_ms
        opened = self._running.subtasks
        return SlotStatus(
            counters={node: dict(own) for each in opened for node, own in list(each.counters.items())},
            subtasks=tuple(self._subtask(each, past_ms, ended=each.task.name in ended) for each in opened),
            sources=sources,
            # a report that is not due tells of an end: its figures may be the last ones
            figures=None if due and now_ms < self._figures_due_ms else reported("figures", None, self._figures, now_ms),
            pressed=self._pressed,
        )

    def _subtask(self, opened: OpenSubtask, past_ms: int, *, ended: bool) -> SubtaskStatus:
        name = opened.task.name
        spent = self._times.setdefault(name, _Times())
        waited_ms, backpressured_ms = opened.waited_ms, opened.backpressured_ms
        backpressured = min((backpressured_ms - spent.backpressured) / past_ms, 1.0)
        idle = min((waited_ms - spent.waited) / past_ms, 1.0)
        spent.waited, spent.backpressured = waited_ms, backpressured_ms
        box = opened.mailbox
        watermark, at_work = TIME_MIN if box is None else box.watermark, not ended
        if isinstance(opened.loop, SourceTask):
            status = opened.loop.status()
            # a subtask without a split does not poll: it waits for commands, and must not count as busy
            watermark, at_work = status.watermark, at_work and status.has_splits
        busy = max(0.0, 1.0 - idle - backpressured) if at_work else 0.0
        spent.busy += busy * past_ms
        spent.idle += max(0.0, 1.0 - busy - backpressured) * past_ms
        return SubtaskStatus(
            task=name,
            subtask=self._running.index,
            rows_queued=0 if box is None else box.rows_queued,
            busy=round(busy, 3),
            backpressured=round(backpressured, 3),
            watermark=None if watermark == TIME_MIN else watermark,
            waits_for_input=None if box is None else box.waits_for_input,
            ended=ended,
        )

    def _figures(self, now_ms: int) -> SlotFigures:
        """The figures now. To be called after `_subtask` has added up the times of every subtask."""
        self._figures_due_ms = now_ms + FIGURES_INTERVAL_MS
        opened = self._running.subtasks
        places = [place for each in opened for place in each.places.values()]
        return SlotFigures(
            at_ms=max(now_ms - self._began_ms, 0),
            nodes=tuple(figures for each in opened for figures in node_figures(each, self._worked_ms(each))),
            times=tuple(_time_figures(each, self._times[each.task.name]) for each in opened),
            sources=tuple(
                source_figures(each.source, each.loop) for each in opened if isinstance(each.loop, SourceTask)
            ),
            transactions=transaction_figures(
                part for each in opened for part in each.thread.parts if isinstance(part, TransactionsWriter)
            ),
            keys=tuple(figures for each in opened for figures in key_figures(each)),
            late=tuple(figures for each in opened for figures in late_figures(each)),
            windows=tuple(figures for each in opened for figures in window_figures(each)),
            state=held_state(places, pressed=self._pressed),
            states=tuple(figures for each in opened for figures in state_figures(each.places)),
        )

    def _worked_ms(self, opened: OpenSubtask) -> float:
        """How long the subtask has not waited for input."""
        spent = self._times[opened.task.name]
        return spent.busy + spent.backpressured


def _time_figures(opened: OpenSubtask, spent: _Times) -> TimeFigures:
    return TimeFigures(
        task=opened.task.name,
        busy_ms=round(spent.busy),
        idle_ms=round(spent.idle),
        backpressured_ms=round(spent.backpressured),
        batches=opened.loop.batches,
    )


def _source(opened: OpenSubtask) -> SourceSubtaskStatus:
    assert opened.source is not None and isinstance(opened.loop, SourceTask)
    status = opened.loop.status()
    return SourceSubtaskStatus(
        source=opened.source,
        subtask=opened.index,
        active_height=status.active_height,
        reached=status.reached,
        has_splits=status.has_splits,
        watermark=status.watermark,
        lag=status.lag,
        waits_on="" if status.waits is None else status.waits.on,
        since_ms=0 if status.waits is None else status.waits.since_ms,
    )


# ---- figures of one subtask ------------------------------------------------------------------------------------------


def node_figures(opened: OpenSubtask, worked_ms: float = 0.0) -> Iterator[NodeFigures]:
    """The nodes of a subtask, except those without a figure. `worked_ms`: how long the subtask has not waited for
    input, its waits for room included."""
    head = opened.task.nodes[0].node
    for spec in opened.task.nodes:
        counted = opened.traffic.get(spec.node)
        bytes_in = bytes_out = None
        if spec.node == head:
            bytes_in = opened.mailbox.bytes_taken if opened.mailbox is not None else None
        if counted is not None:
            bytes_in = counted.bytes_in if isinstance(spec, SourceSpec) else bytes_in
            # a source that feeds its own chain only sends nothing on
            bytes_out = counted.bytes_out if isinstance(spec, SinkSpec) or counted.bytes_out else None
        sink, own_ms = opened.sinks.get(spec.node), round(_own_ms(opened, spec, worked_ms))
        if bytes_in is not None or bytes_out is not None or own_ms:
            yield NodeFigures(
                node=spec.node,
                bytes_in=bytes_in,
                bytes_out=bytes_out,
                own_ms=own_ms,
                write_ms=None if sink is None else round(sink.writing.ms),
                flush_ms=None if sink is None else round(sink.flushing.ms),
            )


def _own_ms(opened: OpenSubtask, spec: TaskNode, worked_ms: float) -> float:
    """The time inside of a node. A source has the time of the subtask's loop that is not spent behind it."""
    spent = opened.times.get(spec.node)
    if spent is None:
        return 0.0
    return max(0.0, worked_ms - spent.behind.ms) if isinstance(spec, SourceSpec) else spent.own_ms


def late_figures(opened: OpenSubtask) -> Iterator[LateFigures]:
    """How late the late rows of each node were, of those with late rows."""
    for node, link in opened.links.items():
        if buckets := link.late.buckets():
            yield LateFigures(node=node, buckets=buckets)


def window_figures(opened: OpenSubtask) -> Iterator[WindowFigures]:
    """The open windows of each node, of those with any."""
    for node, link in opened.links.items():
        windowed = link.windowed
        next_end = None if windowed is None else windowed.next_end
        if windowed is not None and next_end is not None:
            time = windowed.watermark
            yield WindowFigures(node=node, watermark=None if time == TIME_MIN else time, next_end=next_end)


def held_state(places: Iterable[StatePlace], *, pressed: bool) -> StateFigures:
    """What the steps of a slice hold in their places. Their budget may be one of several slices, and counts all."""
    held = [size for place in places for size in place.by_state().values()]
    memory, files = sum(size for size, _ in held), sum(size for _, size in held)
    return StateFigures(memory_bytes=memory, disk_bytes=files, pressed=pressed)


def state_figures(places: Mapping[str, StatePlace]) -> Iterator[NodeStateFigures]:
    """Where each state of a subtask lies, of those with rows. places: those of its steps by node."""
    for node, place in places.items():
        for state, (memory, files) in sorted(place.by_state().items()):
            if state and (memory or files):
                yield NodeStateFigures(node=node, state=state, memory_bytes=memory, disk_bytes=files)


def key_figures(opened: OpenSubtask) -> Iterator[KeyFigures]:
    """The heaviest keys of the subtask, if its rows come by key and have been sampled."""
    sample = opened.loop.keys if isinstance(opened.loop, Subtask) else None
    if sample is not None and sample.figures.rows:
        yield sample.figures


def source_figures(source: str | None, task: SourceTask) -> SourceFigures:
    """The partitions of a source subtask, those that are furthest behind if there are many."""
    assert source is not None, "a source task has a source"
    partitions = task.partitions()
    shown = tuple(_partition(each) for each in furthest_behind(partitions))
    return SourceFigures(source=source, total=len(partitions), partitions=shown, first=task.first_rows)


def furthest_behind(partitions: Sequence[PartitionStatus]) -> Sequence[PartitionStatus]:
    """At most `PARTITIONS_MAX` partitions: those with the greatest lag, then those with the lowest watermark."""
    if len(partitions) <= PARTITIONS_MAX:
        return partitions
    # a partition without rows holds time back the most
    order = sorted(
        partitions, key=lambda each: (-(each.lag or 0), TIME_MIN if each.watermark is None else each.watermark)
    )
    return order[:PARTITIONS_MAX]


def transaction_figures(writers: Iterable[TransactionsWriter]) -> tuple[TransactionFigures, ...]:
    """The open transactions of the writers, of each at most `TRANSACTIONS_MAX`."""
    return tuple(
        TransactionFigures(sink=each.sink, name=each.name, age_ms=each.age_ms, prepared=each.prepared)
        for writer in writers
        for each in list(writer.transactions())[:TRANSACTIONS_MAX]
    )


def _partition(status: PartitionStatus) -> PartitionFigures:
    watermark = status.watermark
    return PartitionFigures(
        topic=status.split.topic,
        partition=status.split.partition,
        position=status.position,
        lag=status.lag,
        watermark=None if watermark is None or watermark == TIME_MIN else watermark,
        idle=status.idle,
        quiet_ms=status.quiet_ms,
    )


INTERVAL_MS = 500
TIMED_INTERVAL_MS = 100
"""The interval if heights of idle partitions or drift limits are relayed: they advance only with the reports."""


class DueReports:
    """The reports of one attempt. interval_ms: between two that are due."""

    def __init__(self, interval_ms: int) -> None:
        # one interval less: the last report was made a moment after it was due
        self._quiet_ms = INTERVAL_MS - interval_ms
        self._made_ms = 0
        self._heights: tuple[tuple[str, int | None, bool], ...] = ()

    def is_news(self, sources: Sequence[SourceSubtaskStatus], now_ms: int) -> bool:
        """Whether the report that is due now is to be sent."""
        return _heights(sources) != self._heights or now_ms - self._made_ms >= self._quiet_ms

    def made(self, sources: Sequence[SourceSubtaskStatus], now_ms: int) -> None:
        """Notes a report that is sent, due or not."""
        self._made_ms, self._heights = now_ms, _heights(sources)


def _heights(sources: Sequence[SourceSubtaskStatus]) -> tuple[tuple[str, int | None, bool], ...]:
    return tuple((each.source, each.active_height, each.has_splits) for each in sources)
