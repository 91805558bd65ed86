"""Event time of one source subtask. Pure: rows and idle partitions in, `__wm` and the subtask's watermark out.

The rules (the total of them is in DESIGN, section 5, rule 1):

* A partition's own watermark is its greatest event time minus the out-of-orderness minus 1 ms.
* The subtask's watermark is the minimum over its partitions' heights; a partition's height is its own watermark, or
  the floor below which it may not fall. No partition ever leaves the minimum: an idle one stands at the relayed
  height, a finished one at +inf, and a subtask without partitions stands at the relayed height too.
* A partition that resumes or is newly found takes as floor what its subtask last emitted; from there on its rows'
  `__wm` is at least that. Each floor that lies above the partition's own watermark is remembered with the position it
  took effect at, for that is what a replay needs to give the same rows.
* A snapshot holds, per partition, its position, its greatest event time and the height at which it stands above its own
  watermark (an idle one: what its subtask last emitted, as if it resumed now). After a restore, in whichever subtask,
  that height is its floor. +inf is never written down: a job that goes on goes on from the last finite watermark.
* In a hand-over nothing is over: finished partitions keep their own watermark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headrace.connect.source import Run, SplitId
from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.core.source_state import AppliedFloor, SourceState, SplitState, compacted

Times = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Partition:
    max_ts: int | None = None
    floor: int = TIME_MIN
    position: int = 0
    idle: bool = False
    finished: bool = False
    recorded: list[AppliedFloor] = field(default_factory=list)
    """Floors of an earlier run, still to be taken, in position order."""


class SourceProgress:
    """Keeps the time of one subtask of one source."""

    def __init__(
        self, source: str, out_of_orderness_ms: int, recorded: Iterable[AppliedFloor] = (), *, hand_over: bool = False
    ) -> None:
        """`recorded`: floors of an earlier run, which a replay takes again; those of the job itself, when it is
        restored, are kept for its life."""
        self._source = source
        self._lag_ms = out_of_orderness_ms + 1
        self._hand_over = hand_over
        self._partitions: dict[SplitId, _Partition] = {}
        self._recorded: dict[SplitId, list[AppliedFloor]] = {}
        for item in sorted(recorded):
            if item.source == source:
                self._recorded.setdefault(SplitId(item.topic, item.partition), []).append(item)
        self._emitted = TIME_MIN
        self._greatest = TIME_MIN  # of all that the source ever emitted, as far as it is known here; never +inf
        self.applied: list[AppliedFloor] = []
        """Every floor that took effect above the partition's own watermark, in order of taking effect."""

    def add(self, split: SplitId, position: int, state: SplitState | None = None, emitted: int | None = None) -> None:
        """Starts a partition at `position`, with what a checkpoint knew of it.

        A partition without state that is found after time has been emitted starts at that floor: the greatest that
        this subtask emitted, or the source ever did before (`emitted`).
        """
        if emitted is not None:
            self._greatest = max(self._greatest, emitted)
        part = _Partition(position=position)
        self._partitions[split] = part
        if state is not None:
            part.max_ts, part.finished = state.max_ts, state.finished
        recorded = self._recorded.pop(split, [])
        for item in recorded:
            if item.position < position:  # in effect already
                part.floor = max(part.floor, item.floor)
                self.applied.append(item)
            else:
                part.recorded.append(item)
        if state is None:
            self._raise_floor(split, part, max(self._emitted, self._greatest))
        elif state.floor is not None:
            self._raise_floor(split, part, state.floor)

    def snapshot(self) -> SourceState:
        """The time of all partitions, as of now."""
        states = [self._state_of(split, part) for split, part in self._partitions.items()]
        splits = sorted(states, key=lambda state: (state.topic, state.partition))
        emitted = None if self._greatest == TIME_MIN else self._greatest
        return SourceState(tuple(splits), emitted, compacted(self.applied))

    def _state_of(self, split: SplitId, part: _Partition) -> SplitState:
        stands = part.floor
        if part.idle or part.finished:
            stands = max(stands, min(self._emitted, self._greatest))
        own = TIME_MIN if part.max_ts is None else part.max_ts - self._lag_ms
        floor = stands if stands > own else None
        return SplitState(split.topic, split.partition, part.position, part.max_ts, floor, part.finished)

    def past(self, height: int) -> frozenset[SplitId]:
        """Partitions still read whose own watermark lies above `height`."""
        return frozenset(
            split
            for split, part in self._partitions.items()
            if not part.finished and part.max_ts is not None and part.max_ts - self._lag_ms > height
        )

    def observe(self, runs: Sequence[Run], ts: Times, positions: Times) -> Times | None:
        """Takes the event times of a batch's good rows, in order; gives `__wm` of each, or None where every row has
        __wm < __ts (nothing can call one of them late, and the column is left out). In a run of which that is true
        beside others of which it is not, -2^63 stands for the exact value."""
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
        wm = np.maximum.accumulate(ts)
        if before is not None:
            wm = np.maximum(wm, before)
        wm = np.maximum(wm - self._lag_ms, part.floor)
        self._take_recorded(part, wm, positions)
        return wm if bool((wm >= ts).any()) else None

    def _take_recorded(self, part: _Partition, wm: Times, positions: Times) -> None:
        while part.recorded and part.recorded[0].position <= int(positions[-1]):
            item = part.recorded.pop(0)
            part.floor = max(part.floor, item.floor)
            self.applied.append(item)
            behind = positions >= item.position
            wm[behind] = np.maximum(wm[behind], item.floor)

    def moved(self, positions: Mapping[SplitId, int]) -> None:
        """Notes the next position of partitions."""
        for split, position in positions.items():
            self._partitions[split].position = position

    def set_idle(self, splits: Iterable[SplitId]) -> None:
        """These partitions are idle: they stand at the relayed height until a row comes."""
        for split in splits:
            self._partitions[split].idle = True

    def finish(self, splits: Iterable[SplitId]) -> None:
        """These partitions reached their stop: time does not wait for them any more."""
        for split in splits:
            self._partitions[split].finished = True

    @property
    def finished(self) -> bool:
        """Whether there are partitions and every one of them is finished."""
        return bool(self._partitions) and all(part.finished for part in self._partitions.values())

    def _over(self, part: _Partition) -> bool:
        """Whether time waits no more for a partition."""
        return part.finished and not self._hand_over

    def active_height(self) -> int | None:
        """The minimum over partitions that are neither idle nor finished; None where there are none such."""
        heights = [self._height(part) for part in self._partitions.values() if not part.idle and not self._over(part)]
        return min(heights, default=None)

    def advance(self, relayed: int | None) -> int | None:
        """The watermark to emit now, or None where it has not grown. `relayed`: the height for idle partitions."""
        height = self._subtask_height(relayed)
        if height is None or height <= self._emitted:
            return None
        self._emitted = height
        if height < TIME_MAX:
            self._greatest = max(self._greatest, height)
        return height

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
