"""When an epoch is durable. Pure: what subtasks report goes in, completed epochs come out.

An epoch is complete once every subtask has passed its barrier, whether its input has ended or not; one is in flight at
a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.connect.sink import Committable

SubtaskId = tuple[str, int]
"""Task name and subtask index."""


class EpochTracker:
    """Counts what the subtasks of one job report."""

    def __init__(self, subtasks: Iterable[SubtaskId]) -> None:
        self._subtasks = frozenset(subtasks)
        self._running = set(self._subtasks)
        self._waiting: set[SubtaskId] = set()
        self._committables: list[Committable] = []
        self._epoch: int | None = None
        self._next = 1

    @property
    def in_flight(self) -> bool:
        """Whether an epoch was begun and is not complete."""
        return self._epoch is not None

    @property
    def input_left(self) -> frozenset[SubtaskId]:
        """Subtasks that have not seen the end of their input."""
        return frozenset(self._running)

    @property
    def waiting(self) -> frozenset[SubtaskId]:
        """Subtasks that the barrier in flight has not passed."""
        return frozenset(self._waiting)

    def begin(self) -> int:
        """Starts the next epoch and gives its number."""
        assert self._epoch is None, "one epoch at a time"
        self._epoch, self._next = self._next, self._next + 1
        self._waiting = set(self._subtasks)
        self._committables = []
        return self._epoch

    def snapshotted(self, subtask: SubtaskId, epoch: int, committables: Sequence[Committable]) -> None:
        """The barrier of `epoch` has passed a subtask, and its sinks have flushed."""
        assert epoch == self._epoch, f"epoch {epoch} is not in flight"
        self._waiting.discard(subtask)
        self._committables.extend(committables)

    def input_ended(self, subtask: SubtaskId) -> None:
        """A subtask has seen the end of its input."""
        self._running.discard(subtask)

    def take_complete(self) -> tuple[int, list[Committable]] | None:
        """The epoch in flight and what to commit for it, if every subtask has spoken; gives it once."""
        if self._epoch is None or self._waiting:
            return None
        epoch, self._epoch = self._epoch, None
        return epoch, self._committables
