"""Collects the snapshot of one subtask for an epoch while its barrier passes through the chain.

    Barrier(7) into the head ──> each link adds its states, each sink its committables, the source its positions
    the call returns         ──> complete(7): one SubtaskSnapshot goes to the subtask's events

Used by the subtask's own thread only. A barrier passes the chain synchronously, so one epoch is collected at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from headrace.connect.sink import Committable
from headrace.core.source_state import SourceState
from headrace.state.snapshot import StateSnapshot
from headrace.worker.control import SubtaskEvents, SubtaskSnapshot


class SubtaskSnapshots:
    """The collector of one subtask: a StateReceiver for its links."""

    def __init__(
        self, task: str, subtask: int, events: SubtaskEvents, counters: Mapping[str, Counter[str]] | None = None
    ) -> None:
        """`counters`: the live counters of the subtask's nodes."""
        self._counters: Mapping[str, Counter[str]] = {} if counters is None else counters
        self._task = task
        self._subtask = subtask
        self._events = events
        self._states: list[tuple[str, StateSnapshot]] = []
        self._source: tuple[str, SourceState] | None = None
        self._committables: list[Committable] = []

    def add_states(self, node: str, epoch: int, states: Sequence[StateSnapshot]) -> None:
        """Adds the states of one node."""
        self._states += [(node, state) for state in states]

    def add_source(self, node: str, state: SourceState) -> None:
        """Adds the positions and the event time of the subtask's source."""
        self._source = (node, state)

    def add_committables(self, committables: Sequence[Committable]) -> None:
        """Adds the committables that a sink prepared at the barrier."""
        self._committables += committables

    def complete(self, epoch: int, aligned_ms: int = 0) -> None:
        """Reports the snapshot after the barrier has passed the chain, and starts an empty one.

        aligned_ms: how long the subtask's gate aligned the barrier.
        """
        snapshot = SubtaskSnapshot(
            self._task,
            self._subtask,
            epoch,
            tuple(self._states),
            self._source,
            tuple(self._committables),
            tuple((node, dict(own)) for node, own in self._counters.items()),
            aligned_ms,
        )
        self._states, self._source, self._committables = [], None, []
        self._events.snapshotted(snapshot)

    def input_ended(self) -> None:
        """Reports that EndOfInput has passed the chain."""
        self._events.input_ended(self._task, self._subtask)
