"""Idle partitions of a followed pipeline: finds them, and computes their floors for the next increment. Pure.

The height of a partition is the event time that it has reached (its watermark). A partition without rows for its
source's `idle_after` is idle. Its height becomes that of `execution.idle_times`. The next increment applies it as the
partition's floor, and stores it in the source's state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from headrace.core.source_state import SourceState, SplitState
from headrace.execution.idle_times import relayed_heights
from headrace.spark.driver.follow_sources import SplitKey


@dataclass(frozen=True, slots=True)
class SourceClock:
    """The event time settings of a source. lag_ms: how far a partition's height is below its greatest event time;
    idle_after_ms None: its partitions are never idle."""

    lag_ms: int
    idle_after_ms: int | None


class IdleSplits:
    """For each partition, the time of the last discovery that found rows in it; if none did, of the first discovery."""

    def __init__(self, clocks: Mapping[str, SourceClock]) -> None:
        """clocks: of the sources with event time."""
        self._clocks = clocks
        self._active_ms: dict[SplitKey, int] = {}

    def seen(self, keys: Collection[SplitKey], fresh: Collection[SplitKey], now_ms: int) -> None:
        """Records the result of a discovery. keys: all partitions; fresh: those with rows to read."""
        for key in keys:
            if key in fresh:
                self._active_ms[key] = now_ms
            else:
                self._active_ms.setdefault(key, now_ms)

    def raised(
        self, states: Mapping[str, SourceState], now_ms: int, ended: Collection[str] = ()
    ) -> dict[str, SourceState]:
        """Returns the sources' states with the floors of idle partitions raised. ended: sources that have ended, whose
        heights hold no other partition back.
        """
        active: dict[str, list[int | None]] = {
            source: [
                self._height(source, split)
                for split in (states[source].splits if source in states else ())
                if not self._idle(source, split, now_ms)
            ]
            for source in self._clocks
            if source not in ended
        }
        reached = {
            source: [split.own_watermark(self._clocks[source].lag_ms) for split in states[source].splits]
            for source in active
            if source in states
        }
        heights = relayed_heights(active, reached)
        return {
            source: self._with_floors(source, state, heights.get(source), now_ms) for source, state in states.items()
        }

    def _with_floors(self, source: str, state: SourceState, height: int | None, now_ms: int) -> SourceState:
        if source not in self._clocks or height is None:
            return state
        splits = tuple(
            replace(split, floor=height)
            if self._idle(source, split, now_ms) and height > self._height(source, split)
            else split
            for split in state.splits
        )
        return replace(state, splits=splits)

    def _idle(self, source: str, split: SplitState, now_ms: int) -> bool:
        after_ms = self._clocks[source].idle_after_ms
        since_ms = self._active_ms.get((source, split.topic, split.partition))
        return after_ms is not None and since_ms is not None and now_ms - since_ms >= after_ms

    def _height(self, source: str, split: SplitState) -> int:
        return split.height(self._clocks[source].lag_ms)
