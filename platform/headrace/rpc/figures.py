"""The figures of a slot, as in its `Status` and `Acked` messages: what the coordinator sums up for users.

Figures are shown and never decided upon: no row, state or checkpoint depends on them. They are counted since the
attempt began, so that a lost report costs nothing. Their size is bounded by the plan, and by `PARTITIONS_MAX`,
`TRANSACTIONS_MAX`.
"""

from __future__ import annotations

from pydantic import TypeAdapter

from headrace.checkpoint.manifest import Document

FIGURES_INTERVAL_MS = 500
"""The least time between two reports with figures."""
PARTITIONS_MAX = 64
"""Most partitions of one source subtask in a report: those that are furthest behind."""
TRANSACTIONS_MAX = 8
"""Most open transactions of one sink subtask in a report: the oldest ones."""


class NodeFigures(Document):
    """Bytes that entered and left the subtask at a node; None where rows stay inside of the chain."""

    node: str
    bytes_in: int | None = None
    bytes_out: int | None = None


class TimeFigures(Document):
    """How a subtask of a task has spent its time since it began, in ms. The three add up to that time."""

    task: str
    busy_ms: int
    idle_ms: int
    backpressured_ms: int


class PartitionFigures(Document):
    """One partition of a source.

    position   offset of the next message to read
    lag        messages behind the end of the partition, None: not known
    watermark  the partition's own watermark (epoch ms), None before its first row
    idle       it does not hold back the watermark
    """

    topic: str
    partition: int
    position: int
    lag: int | None = None
    watermark: int | None = None
    idle: bool = False


class SourceFigures(Document):
    """The partitions of a source that this slot reads. `partitions`: at most `PARTITIONS_MAX` of `total`."""

    source: str
    total: int
    partitions: tuple[PartitionFigures, ...] = ()


class TransactionFigures(Document):
    """A transaction of a sink that is open. `age_ms`: since its first row; prepared: a barrier has closed it."""

    sink: str
    name: str
    age_ms: int
    prepared: bool = False


class SlotFigures(Document):
    """The figures of one slot. at_ms: since its subtasks began to run."""

    at_ms: int
    nodes: tuple[NodeFigures, ...] = ()
    times: tuple[TimeFigures, ...] = ()
    sources: tuple[SourceFigures, ...] = ()
    transactions: tuple[TransactionFigures, ...] = ()


class SubtaskBarrier(Document):
    """One epoch of one subtask.

    took_ms     from the epoch's trigger in the slot until the subtask's snapshot was in storage
    aligned_ms  between the first and the last barrier at the subtask's gate
    bytes       written to storage
    """

    task: str
    took_ms: int
    aligned_ms: int = 0
    bytes: int = 0


SUBTASK_BARRIERS = TypeAdapter(tuple[SubtaskBarrier, ...])
"""JSON list in a slot's `Acked`."""
