"""The verdicts about a job: a closed union, from which evidence and remedy follow (`wording`). Data only."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.coordinator.figures.bottleneck.view import KeyShare, PartitionView
from headrace.coordinator.figures.quiet_partitions import QuietPartition


@dataclass(frozen=True, slots=True)
class NotRunning:
    """The job does not run, so nothing is slow."""

    state: str
    message: str


@dataclass(frozen=True, slots=True)
class TooEarly:
    """There are no figures of some seconds yet."""

    running_ms: int


@dataclass(frozen=True, slots=True)
class SkewedKeys:
    """One subtask has far more rows than the others, because of its keys.

    busiest, others   busy share of that subtask, and the median of the other ones
    rows_ratio        its rows over the median of the others'; None: the others have none
    heavy             its heaviest key, or its heaviest group if no key is heavy; None: neither is
    """

    task: str
    node: str
    subtask: int
    busiest: float
    others: float
    rows_ratio: float | None
    heavy: KeyShare | None
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SkewedPartitions:
    """One subtask of a source reads far more than the others. heavy: the partition that it reads most from."""

    source: str
    subtask: int
    busiest: float
    others: float
    heavy: PartitionView | None


@dataclass(frozen=True, slots=True)
class SlowSubtask:
    """One subtask is far busier than the others with about as many rows: its worker is slow."""

    task: str
    subtask: int
    worker: str
    busiest: float
    others: float


@dataclass(frozen=True, slots=True)
class SlowSink:
    """A sink takes most of its task's time. share: of the busy time; write, flush: the parts of that time."""

    task: str
    sink: str
    connector: str
    busy: float
    share: float
    write: float
    flush: float


@dataclass(frozen=True, slots=True)
class SmallBatches:
    """The work is per batch: a task is busy with batches of few rows."""

    task: str
    node: str
    busy: float
    rows_per_batch: float


@dataclass(frozen=True, slots=True)
class SlowNode:
    """A task is busy. node: where it spends most of its time; share: of its busy time."""

    task: str
    node: str
    kind: str
    busy: float
    share: float
    parallelism: int


@dataclass(frozen=True, slots=True)
class HeldTime:
    """Rows flow, but a partition without rows holds event time back, so that windows do not close."""

    source: str
    quiet: QuietPartition
    more: int
    idle_after: bool


@dataclass(frozen=True, slots=True)
class SlowCheckpoints:
    """Checkpoints run most of the time, so that output is committed late. share: of the time."""

    share: float
    took_ms: int
    interval_ms: int | None


@dataclass(frozen=True, slots=True)
class SlowFetch:
    """Every subtask waits for input, and a source is behind: messages arrive slowly, or partitions wait for others."""

    source: str
    lag: int
    furthest: PartitionView | None
    has_drift: bool


@dataclass(frozen=True, slots=True)
class KeepsUp:
    """Nothing is the bottleneck: the sources wait for messages. busiest: the busiest task with its share."""

    busiest: str
    busy: float


Verdict = (
    NotRunning
    | TooEarly
    | SkewedKeys
    | SkewedPartitions
    | SlowSubtask
    | SlowSink
    | SmallBatches
    | SlowNode
    | HeldTime
    | SlowCheckpoints
    | SlowFetch
    | KeepsUp
)
