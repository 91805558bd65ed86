"""Event time of one source subtask. Pure: rows and idle partitions in, `__wm` and the subtask's watermark out.

The rules:

* The own watermark of a partition is its greatest event time minus the out-of-orderness minus 1 ms.
* The height of a partition is its own watermark, or its floor if that is greater.
* The watermark of the subtask is the minimum over the heights of all its partitions. No partition ever leaves the
  minimum: an idle one counts with the relayed height, a finished one with +inf. The watermark of a subtask without
  partitions is the relayed height.
* When a partition resumes or is discovered, the watermark that its subtask emitted last becomes its floor. From then
  on the `__wm` of its rows is at least the floor. A floor above the partition's own watermark is recorded with the
  position at which it took effect, because a replay needs it to produce the same rows.
* A snapshot has for each partition its position, its greatest event time, and its height as floor. That of an idle or
  finished partition is at least the watermark that its subtask emitted last, as if it resumed now. After a restore, in
  any subtask, the partition has that floor: with a larger out-of-orderness its own watermark is lower than before, but
  windows that were emitted stay closed.
* +inf is never stored: a restored job continues from the last finite watermark.
* In a hand-over, a run whose end closes no window because another run continues it, no partition is over: a finished
  partition counts with its own watermark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headrace.connect.source import Run, SplitId
from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.core.source_state import AppliedFloor, SourceState, SplitState, compacted
from headrace.kernels.group.event_time import row_watermarks

Times = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Partition:
    max_ts: int | None = None
    floor: int = TIME_MIN
    position: int = 0
    idle: bool = False
    finished: bool = False
    recorded: list[AppliedFloor] = field(default_factory=list)
    """Floors of an earlier run that have not taken effect yet, in the order of their positions."""


class SourceProgress:
    """The event time of one subtask of one source. Used by one thread."""

    def __init__(
        self, source: str, out_of_orderness_ms: int, recorded: Iterable[AppliedFloor] = (), *, hand_over: bool = False
    ) -> None:
        """`recorded`: floors of an earlier run, which take effect again at their positions. A replay receives those of
        the job that it repeats, a restored job its own."""
        self._source = source
        self._lag_ms = out_of_orderness_ms + 1
        self._hand_over = hand_over
        self._partitions: dict[SplitId, _Partition] = {}
        self._recorded: dict[SplitId, list[AppliedFloor]] = {}
        for item in sorted(recorded):
            if item.source == source:
                self._recorded.setdefault(SplitId(item.topic, item.partition), []).append(item)
        self._emitted = TIME_MIN
        # the greatest watermark that any subtask of the source is known to have emitted, in any attempt; never +inf
        self._greatest = TIME_MIN
        self.applied: list[AppliedFloor] = []
        """Every floor that took effect above its partition's own watermark, in the order of taking effect."""

    def add(self, split: SplitId, position: int, state: SplitState | None = None, emitted: int | None = None) -> None:
        """Adds a partition that is read from `position` on, with its state in the checkpoint.

        A partition without state was discovered after the job began. Its floor is the greatest watermark that this
        subtask has emitted, or the source before (`emitted`, epoch ms).
        """
        if emitted is not None:
            self._greatest = max(self._greatest, emitted)
        part = _Partition(position=position)
        self._partitions[split] = part
        if state is not None:
            part.max_ts, part.finished = state.max_ts, state.finished
        recorded = self._recorded.pop(split, [])
        for item in recorded:
            if item.position < position:  # took effect before the checkpoint
                part.floor = max(part.floor, item.floor)
                self.applied.append(item)
            else:
                part.recorded.append(item)
        if state is None:
            self._raise_floor(split, part, max(self._emitted, self._greatest))
        elif state.floor is not None:
            self._raise_floor(split, part, state.floor)

    def snapshot(self) -> SourceState:
        """The positions and the event time of all partitions now."""
        states = [self._state_of(split, part) for split, part in self._partitions.items()]
        splits = sorted(states, key=lambda state: (state.topic, state.partition))
        emitted = None if self._greatest == TIME_MIN else self._greatest
        return SourceState(tuple(splits), emitted, compacted(self.applied))

    def _state_of(self, split: SplitId, part: _Partition) -> SplitState:
        stands = part.floor
        if part.idle or part.finished:
            stands = max(stands, min(self._emitted, self._greatest))
        height = max(stands, self._height(part))
        floor = None if height == TIME_MIN else height
        return SplitState(split.topic, split.partition, part.position, part.max_ts, floor, part.finished)

    def past(self, height: int) -> frozenset[SplitId]:
        """Unfinished partitions whose own watermark is above `height`."""
        return frozenset(
            split
            for split, part in self._partitions.items()
            if not part.finished and part.max_ts is not None and part.max_ts - self._lag_ms > height
        )

    def observe(self, runs: Sequence[Run], ts: Times, positions: Times) -> Times | None:
        """Adds the event times `ts` (epoch ms) of a batch's good rows, in order; returns the `__wm` of each row.

        Returns None if every row has `__wm` < `__ts`: no operator can judge such a row late, so the batch needs no
        column. Otherwise returns a column. In it, runs without a row that may be late have -2^63, because no operator
        needs their exact value.
        """
        watermarks: Times | None = None
        for run in runs:
            if run.begin == run.end:
                continue
            part = self._partitions[run.split]
            if part.idle:
                part.idle = False
                self._raise_floor(run.split, part, self._emitted, int(positions[run.begin]))
            exact = self._run_watermarks(part, ts[run.begin : run.end], positions[run.begin : run.end])
            if exact is not None:
                if watermarks is None:
                    watermarks = np.full(len(ts), TIME_MIN, dtype=np.int64)
                watermarks[run.begin : run.end] = exact
        return watermarks

    def _run_watermarks(self, part: _Partition, ts: Times, positions: Times) -> Times | None:
        low, high = int(ts.min()), int(ts.max())
        before = part.max_ts
        part.max_ts = high if before is None else max(before, high)
        if not part.recorded and max(part.max_ts - self._lag_ms, part.floor) < low:
            return None
        wm, is_late = row_watermarks(ts, before, self._lag_ms, part.floor)
        if part.recorded:
            self._take_recorded(part, wm, positions)
            is_late = bool((wm >= ts).any())
        return wm if is_late else None

    def _take_recorded(self, part: _Partition, wm: Times, positions: Times) -> None:
        while part.recorded and part.recorded[0].position <= int(positions[-1]):
            item = part.recorded.pop(0)
            part.floor = max(part.floor, item.floor)
            self.applied.append(item)
            behind = positions >= item.position
            wm[behind] = np.maximum(wm[behind], item.floor)

    def moved(self, positions: Mapping[SplitId, int]) -> None:
        """Sets the next position of each of these partitions."""
        for split, position in positions.items():
            self._partitions[split].position = position

    def set_idle(self, splits: Iterable[SplitId]) -> None:
        """Marks partitions as idle: each counts with the relayed height until its next row."""
        for split in splits:
            self._partitions[split].idle = True

    def finish(self, splits: Iterable[SplitId]) -> None:
        """Marks partitions as finished (read to their stop): the watermark does not wait for them any more."""
        for split in splits:
            self._partitions[split].finished = True

    @property
    def finished(self) -> bool:
        """Whether there are partitions and every one of them is finished."""
        return bool(self._partitions) and all(part.finished for part in self._partitions.values())

    def own_watermarks(self) -> list[tuple[SplitId, int | None, bool]]:
        """Each partition with its own watermark (epoch ms; None before its first row), and whether the watermark of the
        subtask does not wait for it: it is idle, or over."""
        return [
            (split, None if part.max_ts is None else part.max_ts - self._lag_ms, part.idle or self._over(part))
            for split, part in self._partitions.items()
        ]

    def _over(self, part: _Partition) -> bool:
        """Whether the watermark no longer waits for a partition."""
        return part.finished and not self._hand_over

    def active_height(self) -> int | None:
        """The minimum height of the partitions that are neither idle nor finished; None if there are none."""
        heights = [self._height(part) for part in self._partitions.values() if not part.idle and not self._over(part)]
        return min(heights, default=None)

    def reached(self) -> int | None:
        """The greatest own watermark of a partition; None before the first row."""
        greatest = max((part.max_ts for part in self._partitions.values() if part.max_ts is not None), default=None)
        return None if greatest is None else greatest - self._lag_ms

    def advance(self, relayed: int | None) -> int | None:
        """The watermark to emit now; None if it has not grown. `relayed`: the height of idle partitions."""
        height = self._subtask_height(relayed)
        if height is None or height <= self._emitted:
            return None
        self._emitted = height
        if height < TIME_MAX:
            self._greatest = max(self._greatest, height)
        return height

    def settle(self, relayed: int | None) -> int | None:
        """The same before the barrier or end behind which nothing is emitted.

        The relayed height is older than the rows of the other subtasks, and a subtask without partitions would hold
        them back by it: its watermark is +inf, which is not stored.
        """
        return self.advance(relayed) if self._partitions else TIME_MAX

    def _subtask_height(self, relayed: int | None) -> int | None:
        active = self.active_height()
        if self.finished and not self._hand_over:
            return TIME_MAX
        waits = not self._partitions or any(part.idle and not self._over(part) for part in self._partitions.values())
        if not waits:
            return active
        if relayed is None:
            return None
        return relayed if active is None else min(active, relayed)

    def _height(self, part: _Partition) -> int:
        own = TIME_MIN if part.max_ts is None else part.max_ts - self._lag_ms
        return max(own, part.floor)

    def _raise_floor(self, split: SplitId, part: _Partition, floor: int, position: int | None = None) -> None:
        if floor <= self._height(part):
            return
        part.floor = floor
        at = part.position if position is None else position
        self.applied.append(AppliedFloor(self._source, split.topic, split.partition, at, floor))
