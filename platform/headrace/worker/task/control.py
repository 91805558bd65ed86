"""What a source subtask is told while it runs, and what subtasks tell about themselves. Messages only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headrace.connect.sink import Committable
from headrace.connect.source import Split
from headrace.core.source_state import SourceState, SplitState
from headrace.state.snapshot import StateSnapshot


@dataclass(frozen=True, slots=True)
class AssignedSplit:
    """A split to read. `state`: what a checkpoint knows of it (then `split.start` is its position), or None."""

    split: Split
    state: SplitState | None = None


@dataclass(frozen=True, slots=True)
class Assign:
    """Read these splits too.

    final    no more will come: the subtask's input ends with its last split
    emitted  greatest watermark that the source ever emitted (epoch ms): the least floor of splits without a state
    """

    splits: tuple[AssignedSplit, ...]
    final: bool
    emitted: int | None = None


@dataclass(frozen=True, slots=True)
class Trigger:
    """Emit the barrier of this epoch now.

    stop    read nothing and emit nothing after it
    drain   time goes to the end (+inf) before it
    """

    epoch: int
    stop: bool = False
    drain: bool = False


@dataclass(frozen=True, slots=True)
class Relay:
    """The height at which idle partitions stand; None: nothing moves."""

    height: int | None


@dataclass(frozen=True, slots=True)
class Limit:
    """Event-time alignment: partitions whose time is past `ts` (epoch ms) pause; None: nobody does."""

    ts: int | None


@dataclass(frozen=True, slots=True)
class Complete:
    """Everything before the barrier of this epoch is durable: its positions may be published."""

    epoch: int


@dataclass(frozen=True, slots=True)
class StopReading:
    """Read no further, close no window: end the input here (EndOfInput without +inf)."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Everything is committed: leave the loop."""


InTurn = Assign | Trigger | Complete | StopReading | Finish
"""Commands that are obeyed one after the other."""
Command = InTurn | Relay | Limit
"""Of heights and limits only the last one counts, at once."""


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """How a source subtask stands; a snapshot for progress, for the relay of idle heights and for alignment."""

    active_height: int | None
    has_splits: bool
    watermark: int
    lag: int


@dataclass(frozen=True, slots=True)
class SubtaskSnapshot:
    """All that one subtask has to give for an epoch: its barrier has passed every node of the chain, and every sink of
    it has flushed. Frames are references: nothing has been written yet.

    source     (source name, positions and time), for a subtask that reads a source
    counters   (node, its counters since the attempt began), as of the barrier
    """

    task: str
    subtask: int
    epoch: int
    states: tuple[tuple[str, StateSnapshot], ...] = ()
    source: tuple[str, SourceState] | None = None
    committables: tuple[Committable, ...] = ()
    counters: tuple[tuple[str, dict[str, int]], ...] = ()


class SubtaskEvents(Protocol):
    """Where subtasks report. Called by the subtasks' threads."""

    def snapshotted(self, snapshot: SubtaskSnapshot) -> None:
        """A barrier has passed the whole subtask."""
        ...

    def input_ended(self, task: str, subtask: int) -> None:
        """EndOfInput has passed the whole subtask; barriers may still come, rows will not."""
        ...
