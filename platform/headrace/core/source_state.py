"""The state of a source by partition: plain data that checkpoints store and enumerators assign again.

The source task writes it at a barrier. A manifest holds the merged state of all subtasks. A restore distributes it by
partition, whatever the parallelism is then (ARCHITECTURE, "Time, idle partitions, discovery").
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.core.signals import TIME_MIN


@dataclass(frozen=True, slots=True, order=True)
class AppliedFloor:
    """From `position` on, rows of the partition have `__wm` >= `floor`."""

    source: str
    topic: str
    partition: int
    position: int
    floor: int


@dataclass(frozen=True, slots=True)
class SplitState:
    """The state of one partition at a barrier.

    position   the next position to read
    max_ts     greatest event time of its good rows (epoch ms), None before the first
    floor      its height (epoch ms), below which it does not fall after a restore; None before the first row. Earlier
               versions have it only where it is above the partition's own watermark
    finished   it reached its stop
    """

    topic: str
    partition: int
    position: int
    max_ts: int | None = None
    floor: int | None = None
    finished: bool = False

    def own_watermark(self, lag_ms: int) -> int | None:
        """`lag_ms` below its greatest event time (epoch ms); None before the first row."""
        return None if self.max_ts is None else self.max_ts - lag_ms

    def height(self, lag_ms: int) -> int:
        """The partition's watermark (epoch ms): its own, or its floor if that is higher."""
        heights = (self.own_watermark(lag_ms), self.floor)
        return max((height for height in heights if height is not None), default=TIME_MIN)


@dataclass(frozen=True, slots=True)
class SourceState:
    """The state of a source at a barrier: of one subtask, or merged over all of them.

    splits    its partitions, by topic and partition
    emitted   the greatest watermark that was sent (epoch ms), None before the first
    applied   floors that took effect since the job began, for its whole life
    """

    splits: tuple[SplitState, ...] = ()
    emitted: int | None = None
    applied: tuple[AppliedFloor, ...] = ()


def merged(states: list[SourceState]) -> SourceState:
    """Merges the states of a source's subtasks into one."""
    emitted = [state.emitted for state in states if state.emitted is not None]
    splits = sorted((split for state in states for split in state.splits), key=lambda s: (s.topic, s.partition))
    applied = compacted(floor for state in states for floor in state.applied)
    return SourceState(tuple(splits), max(emitted, default=None), applied)


def compacted(floors: Iterable[AppliedFloor]) -> tuple[AppliedFloor, ...]:
    """The floors that have an effect, in order: a floor no higher than an earlier one of its partition has none."""
    kept: dict[tuple[str, str, int], list[AppliedFloor]] = {}
    for item in sorted(floors):
        before = kept.setdefault((item.source, item.topic, item.partition), [])
        if before and before[-1].floor >= item.floor:
            continue
        if before and before[-1].position == item.position:
            before.pop()
        before.append(item)
    return tuple(item for items in kept.values() for item in items)
