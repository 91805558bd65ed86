"""What a source subtask is told while it runs, and what subtasks tell about themselves. Messages only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.connect.sink import Committable
from headrace.connect.source import Split


@dataclass(frozen=True, slots=True)
class Assign:
    """Read these splits too. `final`: no more will come, so the subtask ends with its last one."""

    splits: tuple[Split, ...]
    final: bool


@dataclass(frozen=True, slots=True)
class Trigger:
    """Emit the barrier of this epoch now."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Relay:
    """The height at which idle partitions stand; None: nothing moves."""

    height: int | None


@dataclass(frozen=True, slots=True)
class Complete:
    """Everything before the barrier of this epoch is durable: its positions may be published."""

    epoch: int


@dataclass(frozen=True, slots=True)
class StopReading:
    """Read no further, close nothing, end."""


InTurn = Assign | Trigger | Complete | StopReading
"""Commands that are obeyed one after the other."""
Command = InTurn | Relay
"""Of heights only the last one counts, at once."""


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """How a source subtask stands; a snapshot for progress and for the relay of idle heights."""

    active_height: int | None
    has_splits: bool
    watermark: int
    lag: int


class SinkAcks(Protocol):
    """Where a sink subtask reports that everything before a point is durable."""

    def flushed(self, sink: str, subtask: int, epoch: int, committables: Sequence[Committable]) -> None:
        """All rows before barrier `epoch` are durable, without error."""
        ...

    def ended(self, sink: str, subtask: int, committables: Sequence[Committable]) -> None:
        """All rows there were are durable; the sink got its end of input."""
        ...
