"""The figures of a running job from which its bottleneck is found. Data only; rates and shares are recent ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.coordinator.figures.quiet_partitions import QuietPartition


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node of a task. kind: `source`, the verb of a step, or `sink`; connector: of a source or sink, else ""."""

    name: str
    kind: str
    connector: str = ""


@dataclass(frozen=True, slots=True)
class NodeSpent:
    """The time (ms) of a node in a subtask; of a sink also the parts in its writer's `write` and `flush`."""

    own_ms: int = 0
    write_ms: int = 0
    flush_ms: int = 0


@dataclass(frozen=True, slots=True)
class SubtaskView:
    """One subtask. busy, idle, backpressured: shares of its time; rows, batches: that its head received.

    spent   node -> its time
    """

    subtask: int
    busy: float = 0.0
    idle: float = 0.0
    backpressured: float = 0.0
    busy_ms: int = 0
    rows: int = 0
    batches: int = 0
    worker: str = ""
    spent: Mapping[str, NodeSpent] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KeyShare:
    """A key, or all keys of a group (key None), with its share of all rows of the task, 0 to 1."""

    group: int
    subtask: int
    share: float
    key: str | None = None


@dataclass(frozen=True, slots=True)
class KeysView:
    """The heaviest keys and key groups of a task, the heaviest first; columns: of its key."""

    columns: tuple[str, ...]
    keys: tuple[KeyShare, ...] = ()
    groups: tuple[KeyShare, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task: nodes that run in one thread. upstream, downstream: the tasks that it reads from and sends to."""

    name: str
    nodes: tuple[NodeView, ...]
    subtasks: tuple[SubtaskView, ...]
    upstream: tuple[str, ...] = ()
    downstream: tuple[str, ...] = ()
    keys: KeysView | None = None

    @property
    def busiest(self) -> SubtaskView:
        """The subtask with the greatest share of busy time."""
        return max(self.subtasks, key=lambda each: (each.busy, each.rows, -each.subtask))

    @property
    def backpressured(self) -> float:
        """The greatest share of backpressured time of its subtasks."""
        return max(each.backpressured for each in self.subtasks)

    @property
    def idle(self) -> float:
        """The least share of idle time of its subtasks."""
        return min(each.idle for each in self.subtasks)

    @property
    def reads_source(self) -> bool:
        """Whether it begins with a source."""
        return self.nodes[0].kind == "source"


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition of a source. rows_per_s: read of it; lag: messages left to read. None: not known."""

    topic: str
    partition: int
    subtask: int
    rows_per_s: float | None = None
    lag: int | None = None


@dataclass(frozen=True, slots=True)
class SourceView:
    """A source. total: its partitions, of which `partitions` has those that are furthest behind.

    quiet        partitions that hold time back, of a source with event time
    holds        `input 1 of named`: where time waits for it at the nearest node with several inputs; or nothing
    idle_after   it has that setting
    has_drift    it has `max_drift`: partitions that are ahead wait for others
    """

    source: str
    partitions: tuple[PartitionView, ...] = ()
    total: int = 0
    quiet: tuple[QuietPartition, ...] = ()
    idle_after: bool = False
    has_drift: bool = False
    holds: str = ""
    rows_per_s: float = 0.0

    @property
    def lag(self) -> int:
        """Messages left to read, of the partitions that are known."""
        return sum(each.lag or 0 for each in self.partitions)


@dataclass(frozen=True, slots=True)
class CheckpointView:
    """A checkpoint that was complete. aligned_ms: its longest alignment; slowest: `task-subtask`, and its ms."""

    took_ms: int
    started_at_ms: int
    aligned_ms: int = 0
    bytes_written: int = 0
    slowest: str = ""
    slowest_ms: int = 0


@dataclass(frozen=True, slots=True)
class LiveView:
    """A job now. window_ms: the time that its figures cover; running_ms: how long its subtasks run.

    checkpoints     complete ones of this attempt, the newest first
    interval_ms     between two checkpoints; None: none are taken
    tasks           in flow order
    """

    state: str
    message: str = ""
    running_ms: int = 0
    window_ms: int = 0
    tasks: tuple[TaskView, ...] = ()
    sources: tuple[SourceView, ...] = ()
    checkpoints: tuple[CheckpointView, ...] = ()
    interval_ms: int | None = None
    oldest_transaction_ms: int = 0

    def task(self, name: str) -> TaskView:
        """The task with this name."""
        return next(task for task in self.tasks if task.name == name)

    def source(self, name: str) -> SourceView:
        """The source with this name; one without figures if it has not reported any."""
        return next((each for each in self.sources if each.source == name), SourceView(name))
