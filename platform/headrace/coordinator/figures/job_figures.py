"""The figures of a job's attempt, from the reports of its slots. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.checkpoint.manifest import Manifest
from headrace.coordinator.figures.slot_series import NodeTotals, Rate, SlotSeries, StateKey
from headrace.rpc.figures import (
    LateFigures,
    SourceFigures,
    StateFigures,
    TimeFigures,
    TransactionFigures,
    WindowFigures,
)
from headrace.rpc.status import SlotStatus
from headrace.state.snapshot import StateKind

NO_RATE = Rate()
NO_STATE = StateFigures()


class JobFigures:
    """The newest figures of every slot of one attempt."""

    def __init__(self) -> None:
        self._series: dict[int, SlotSeries] = {}

    def take(self, index: int, status: SlotStatus) -> None:
        """Adds a report of slot `index`. Reports without figures change nothing."""
        if status.figures is not None:
            self._series.setdefault(index, SlotSeries()).take(status.figures, status.counters)

    @property
    def running_ms(self) -> int:
        """How long the subtasks of the attempt have run, by the slot that reports the longest; 0: not yet."""
        return max((series.running_ms for series in self._series.values()), default=0)

    @property
    def series(self) -> Mapping[int, SlotSeries]:
        """Slot index -> its reports."""
        return self._series

    def totals(self, node: str) -> dict[int, NodeTotals]:
        """Subtask -> the node's totals there."""
        return {index: series.totals(node) for index, series in sorted(self._series.items())}

    def counters(self) -> list[Mapping[str, Mapping[str, int]]]:
        """The counters of each slot, as of its newest figures."""
        return [series.counters for series in self._series.values()]

    def rate(self, nodes: Iterable[str], counter: str) -> Rate:
        """How fast a counter grows, over all slots and these nodes."""
        return sum(
            (series.rate(node, counter) for node in nodes for series in self._series.values()),
            start=NO_RATE,
        )

    def times(self, task: str) -> dict[int, TimeFigures]:
        """Subtask -> how it has spent its time."""
        return {
            index: each
            for index, series in sorted(self._series.items())
            if series.figures is not None
            for each in series.figures.times
            if each.task == task
        }

    def sources(self, source: str) -> dict[int, SourceFigures]:
        """Subtask -> its partitions of the source."""
        return {
            index: each
            for index, series in sorted(self._series.items())
            if series.figures is not None
            for each in series.figures.sources
            if each.source == source
        }

    def late(self, node: str) -> list[LateFigures]:
        """How late the late rows of a node were, by subtask."""
        return [
            each
            for series in self._series.values()
            if series.figures is not None
            for each in series.figures.late
            if each.node == node
        ]

    def windows(self, node: str) -> list[WindowFigures]:
        """The open windows of a node, by subtask with any."""
        return [
            each
            for series in self._series.values()
            if series.figures is not None
            for each in series.figures.windows
            if each.node == node
        ]

    def transactions(self) -> list[tuple[int, TransactionFigures]]:
        """(subtask, transaction) of all open transactions, the oldest first."""
        found = [
            (index, each)
            for index, series in self._series.items()
            if series.figures is not None
            for each in series.figures.transactions
        ]
        return sorted(found, key=lambda item: (-item[1].age_ms, item[0], item[1].name))

    def state(self) -> StateFigures:
        """The bytes of the state of all slots, by place, as of their last reports."""
        found = [series.figures.state for series in self._series.values() if series.figures is not None]
        return StateFigures(
            memory_bytes=sum(each.memory_bytes for each in found),
            disk_bytes=sum(each.disk_bytes for each in found),
            pressed=any(each.pressed for each in found),
        )

    def states(self) -> dict[StateKey, StateFigures]:
        """(node, state) -> its bytes by place, over all slots, as of their last reports."""
        found: dict[StateKey, StateFigures] = {}
        for series in self._series.values():
            for each in series.figures.states if series.figures is not None else ():
                known = found.get((each.node, each.state), NO_STATE)
                found[each.node, each.state] = StateFigures(
                    memory_bytes=known.memory_bytes + each.memory_bytes, disk_bytes=known.disk_bytes + each.disk_bytes
                )
        return found


@dataclass(frozen=True, slots=True)
class StateSize:
    """A state, or all of a node, as its files in a checkpoint have it. bytes: of the files, compressed."""

    bytes: int = 0
    rows: int = 0

    def __add__(self, other: StateSize) -> StateSize:
        return StateSize(self.bytes + other.bytes, self.rows + other.rows)


def state_sizes(manifest: Manifest | None, attempt: int) -> dict[str, dict[int | None, StateSize]]:
    """Node -> subtask -> the size of its state in a checkpoint; under None the sum over all subtasks.

    Subtasks are left out if the checkpoint is of another attempt: that one's parallelism may have been another.
    """
    sizes: dict[str, dict[int | None, StateSize]] = {}
    for handle in () if manifest is None else manifest.states:
        files = {part.path: part.bytes for part in handle.files}
        own, of_node = StateSize(sum(files.values()), handle.rows), sizes.setdefault(handle.node, {})
        keys = [None, handle.subtask] if manifest is not None and manifest.attempt == attempt else [None]
        for key in keys:
            of_node[key] = of_node.get(key, StateSize()) + own
    return sizes


def stored_states(manifest: Manifest | None) -> dict[StateKey, StateSize]:
    """(node, state) -> its size in a checkpoint, of states with rows of the data: without the time of each subtask."""
    sizes: dict[StateKey, StateSize] = {}
    for handle in () if manifest is None else manifest.states:
        if handle.kind != StateKind.UNION:
            size = sum({part.path: part.bytes for part in handle.files}.values())
            key = (handle.node, handle.state)
            sizes[key] = sizes.get(key, StateSize()) + StateSize(size, handle.rows)
    return sizes
