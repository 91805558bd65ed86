"""Commands to a source subtask while it runs, and reports of subtasks. Messages only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headrace.connect.sink import Committable
from headrace.connect.source import Split, SplitId
from headrace.core.source_state import SourceState, SplitState
from headrace.state.snapshot import StateSnapshot


@dataclass(frozen=True, slots=True)
class AssignedSplit:
    """A split to read. `state`: its state in the checkpoint (then `split.start` is its position), or None."""

    split: Split
    state: SplitState | None = None


@dataclass(frozen=True, slots=True)
class Assign:
    """Read these splits in addition to the others.

    final    no more splits will come: the subtask's input ends with its last split
    emitted  greatest watermark that the source ever emitted (epoch ms): the least floor of splits without a state
    """

    splits: tuple[AssignedSplit, ...]
    final: bool
    emitted: int | None = None


@dataclass(frozen=True, slots=True)
class Trigger:
    """Emit the barrier of this epoch now.

    stop    read nothing and emit nothing after it
    drain   emit Watermark(+inf) before it
    """

    epoch: int
    stop: bool = False
    drain: bool = False


@dataclass(frozen=True, slots=True)
class Relay:
    """The height with which idle partitions count (epoch ms); None: the watermark waits for them."""

    height: int | None


@dataclass(frozen=True, slots=True)
class Limit:
    """Watermark alignment: partitions whose own watermark is past `ts` (epoch ms) pause; None: no limit."""

    ts: int | None


@dataclass(frozen=True, slots=True)
class Complete:
    """The epoch is committed: the positions at its barrier may be published (Kafka: committed to the group)."""

    epoch: int


@dataclass(frozen=True, slots=True)
class StopReading:
    """Read no further, close no window: end the input here (EndOfInput without +inf)."""


@dataclass(frozen=True, slots=True)
class Finish:
    """All output is committed: leave the loop."""


InTurn = Assign | Trigger | Complete | StopReading | Finish
"""Commands that the loop executes one after the other."""
Command = InTurn | Relay | Limit
"""Of Relay and of Limit only the latest one counts. It takes effect at once, not in turn."""


@dataclass(frozen=True, slots=True)
class SourceWait:
    """A source subtask reads nothing until its decoder knows something. on: what, as text; since_ms: epoch ms."""

    on: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """The status of a source subtask: for progress reports, for the relay of idle heights and for alignment.

    active_height  minimum height (epoch ms) of partitions neither idle nor finished; None: there are none
    reached        greatest own watermark of its partitions (epoch ms); None before the first row
    watermark      emitted last (epoch ms)
    lag            messages that the splits are behind
    waits          for what the decoder waits; None: for nothing
    """

    active_height: int | None
    reached: int | None
    has_splits: bool
    watermark: int
    lag: int
    waits: SourceWait | None = None


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition of a source subtask, for people.

    position   offset of the next message to read
    lag        messages that the reader is behind; None: it has not reported any yet
    watermark  the partition's own (epoch ms); None before its first row
    idle       the watermark does not wait for it
    quiet_ms   time since its last row, or since its assignment
    """

    split: SplitId
    position: int
    lag: int | None
    watermark: int | None
    idle: bool
    quiet_ms: int = 0


@dataclass(frozen=True, slots=True)
class SubtaskSnapshot:
    """The snapshot of one subtask for an epoch: the barrier has passed every node of its chain, every sink has flushed.

    State frames are references: nothing has been written to storage yet.

    source     (source name, positions and time), for a subtask that reads a source
    counters   (node, its counters since the attempt began), as of the barrier
    aligned_ms  how long the subtask's gate aligned the barrier: for people, no part of a checkpoint
    """

    task: str
    subtask: int
    epoch: int
    states: tuple[tuple[str, StateSnapshot], ...] = ()
    source: tuple[str, SourceState] | None = None
    committables: tuple[Committable, ...] = ()
    counters: tuple[tuple[str, dict[str, int]], ...] = ()
    aligned_ms: int = 0


class SubtaskEvents(Protocol):
    """Receives the reports of subtasks, in the subtasks' threads."""

    def snapshotted(self, snapshot: SubtaskSnapshot) -> None:
        """A barrier has passed the whole subtask."""
        ...

    def input_ended(self, task: str, subtask: int) -> None:
        """EndOfInput has passed the whole subtask. Barriers may follow, rows will not."""
        ...
