"""Figures of one subtask, read from its live parts. Reads only: nothing here changes what a subtask does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from headrace.connect.sink import TransactionsWriter
from headrace.core.signals import TIME_MIN
from headrace.plan.physical import SinkSpec, SourceSpec, TaskNode
from headrace.rpc.figures import (
    PARTITIONS_MAX,
    TRANSACTIONS_MAX,
    KeyFigures,
    LateFigures,
    NodeFigures,
    PartitionFigures,
    SourceFigures,
    TransactionFigures,
    WindowFigures,
)
from headrace.worker.control import PartitionStatus
from headrace.worker.slot.slice import OpenSubtask
from headrace.worker.task.source_task import SourceTask
from headrace.worker.task.subtask import Subtask


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
