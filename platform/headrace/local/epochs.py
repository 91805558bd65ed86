"""When an epoch is durable. Pure: acknowledgements of sink subtasks in, completed epochs out.

An epoch is complete once every sink subtask has flushed it or has ended; epochs complete in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headrace.connect.sink import Committable

SinkSubtask = tuple[str, int]


@dataclass(slots=True)
class _Epoch:
    waiting: set[SinkSubtask]
    committables: list[Committable] = field(default_factory=list)


class EpochTracker:
    """Counts acknowledgements; one epoch is in flight at a time."""

    def __init__(self, sinks: Iterable[SinkSubtask]) -> None:
        self._running = set(sinks)
        self._epoch: int | None = None
        self._state = _Epoch(set())
        self._last: list[Committable] = []
        self._next = 1

    @property
    def running(self) -> tuple[str, ...]:
        """Names of the sinks that have not ended, each once."""
        return tuple(sorted({sink for sink, _ in self._running}))

    @property
    def in_flight(self) -> bool:
        """Whether an epoch was begun and is not complete."""
        return self._epoch is not None

    def begin(self) -> int:
        """Starts the next epoch and gives its number."""
        assert self._epoch is None, "one epoch at a time"
        self._epoch, self._next = self._next, self._next + 1
        self._state = _Epoch(set(self._running))
        return self._epoch

    def flushed(self, sink: SinkSubtask, epoch: int, committables: Sequence[Committable]) -> None:
        """A sink subtask has made `epoch` durable."""
        assert epoch == self._epoch, f"epoch {epoch} is not in flight"
        self._state.waiting.discard(sink)
        self._state.committables.extend(committables)

    def ended(self, sink: SinkSubtask, committables: Sequence[Committable]) -> None:
        """A sink subtask has ended with everything durable."""
        self._running.discard(sink)
        self._state.waiting.discard(sink)
        self._last.extend(committables)

    def take_complete(self) -> tuple[int, list[Committable]] | None:
        """The epoch in flight and what to commit for it, if every sink has spoken; gives it once."""
        if self._epoch is None or self._state.waiting:
            return None
        epoch, self._epoch = self._epoch, None
        return epoch, self._state.committables

    def take_last(self) -> list[Committable]:
        """What ended sinks left to commit."""
        last, self._last = self._last, []
        return last
