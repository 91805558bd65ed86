"""The figures of a slot, as in its `Status` and `Acked` messages, which the coordinator sums up for users.

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
FIRST_ROWS_MAX = 20_000
"""Rows of a source subtask that `FirstRows` inspects; it inspects the whole batch that reaches this number."""
REMARKS_MAX = 8
"""Most remarks of the reader of a source subtask in a report; later ones are dropped."""
HEAVY_MAX = 8
"""Most keys, and most key groups, of one subtask in a report: those with the most rows."""


class NodeFigures(Document):
    """One node in one subtask.

    bytes_in, bytes_out   that entered and left the subtask at the node; None where rows stay inside of the chain
    own_ms     time of the subtask's thread inside of the node itself, without the nodes behind it
    write_ms   of a sink: the part of `own_ms` in which its writer took rows; None: the node is no sink
    flush_ms   of a sink: the part of `own_ms` in which its writer flushed at barriers
    """

    node: str
    bytes_in: int | None = None
    bytes_out: int | None = None
    own_ms: int = 0
    write_ms: int | None = None
    flush_ms: int | None = None


class TimeFigures(Document):
    """How a subtask of a task has spent its time since it began, in ms. The three add up to that time.

    batches   how many batches its head has received
    """

    task: str
    busy_ms: int
    idle_ms: int
    backpressured_ms: int
    batches: int = 0


class PartitionFigures(Document):
    """One partition of a source.

    position   offset of the next message to read
    lag        messages behind the end of the partition, None: not known
    watermark  the partition's own watermark (epoch ms), None before its first row
    idle       it does not hold back the watermark
    quiet_ms   time since its last row, or since its assignment; None: not known
    """

    topic: str
    partition: int
    position: int
    lag: int | None = None
    watermark: int | None = None
    idle: bool = False
    quiet_ms: int | None = None


class FirstRows(Document):
    """Facts about the first rows of a source subtask (`worker.task.ingest`).

    rows       how many of them have been looked at
    all_null   columns that are NULL in all of them
    in_1970    rows whose event time is in 1970; greatest_1970: the latest of these times (epoch ms)
    remarks    those of the reader (`connect.source.Polled`), each once, at most `REMARKS_MAX`
    """

    rows: int
    all_null: tuple[str, ...] = ()
    in_1970: int = 0
    greatest_1970: int | None = None
    remarks: tuple[str, ...] = ()


class SourceFigures(Document):
    """The partitions of a source that this slot reads. `partitions`: at most `PARTITIONS_MAX` of `total`."""

    source: str
    total: int
    partitions: tuple[PartitionFigures, ...] = ()
    first: FirstRows | None = None


class HeavyKey(Document):
    """A key with many rows. key: its values as text, cut; rows: estimated, of `KeyFigures.rows`."""

    key: str
    group: int
    rows: int


class HeavyGroup(Document):
    """A key group with many rows of `KeyFigures.rows`."""

    group: int
    rows: int


class KeyFigures(Document):
    """The heaviest keys of a subtask among `rows` sampled rows of the last seconds (`worker.task.key_sample`).

    columns   of the key; keys, groups: at most `HEAVY_MAX`, the heaviest first
    """

    task: str
    columns: tuple[str, ...]
    rows: int
    keys: tuple[HeavyKey, ...] = ()
    groups: tuple[HeavyGroup, ...] = ()


class LateFigures(Document):
    """How late the late rows of a node were: (bucket, rows) of `core.late_buckets`, ascending."""

    node: str
    buckets: tuple[tuple[int, int], ...] = ()


class WindowFigures(Document):
    """The windows of a node in one subtask that have rows and have not fired; a subtask without them has no entry.

    watermark   that the node has handled last (epoch ms), None before the first
    next_end    end of the first of these windows (epoch ms)
    """

    node: str
    watermark: int | None
    next_end: int


class TransactionFigures(Document):
    """A transaction of a sink that is open. `age_ms`: since its first row; prepared: a barrier has closed it."""

    sink: str
    name: str
    age_ms: int
    prepared: bool = False


class StateBytes(Document):
    """Bytes of state by place: in memory, and in local files."""

    memory_bytes: int = 0
    disk_bytes: int = 0


class StateFigures(StateBytes):
    """The state of a slot. pressed: as of `SlotStatus`."""

    pressed: bool = False


class NodeStateFigures(StateBytes):
    """One state of a node."""

    node: str
    state: str


class SlotFigures(Document):
    """The figures of one slot. at_ms: since its subtasks began to run."""

    at_ms: int
    nodes: tuple[NodeFigures, ...] = ()
    times: tuple[TimeFigures, ...] = ()
    sources: tuple[SourceFigures, ...] = ()
    transactions: tuple[TransactionFigures, ...] = ()
    keys: tuple[KeyFigures, ...] = ()
    late: tuple[LateFigures, ...] = ()
    windows: tuple[WindowFigures, ...] = ()
    state: StateFigures = StateFigures()
    states: tuple[NodeStateFigures, ...] = ()


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
