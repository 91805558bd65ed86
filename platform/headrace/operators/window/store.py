"""Partial frames that are merged when they are many: the columnar log-structured store of one piece of state.

A batch appends one partial frame, which costs nothing; frames are merged when read or when they are many. Merging
takes the newest frames and every older one that is at most twice as large as what is taken, so a row is merged a
logarithmic number of times, and what is held stays within `frames_max` frames and (besides `ROWS_PENDING_MAX` rows)
1.5 times the rows of the fully merged state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

FRAMES_MAX = 64
"""Frames that are added before some are merged, where they are read once."""
ROWS_PENDING_MAX = 262_144
"""Rows in added frames before some are merged."""

Merge = Callable[[Sequence[pl.DataFrame]], pl.DataFrame]


class PartialStore:
    """Frames of one piece of state; what the rows mean is known by the merge function only."""

    __slots__ = ("_frames_max", "_merge", "_pending_frames", "_pending_rows", "frames")

    def __init__(self, merge: Merge, frames_max: int = FRAMES_MAX) -> None:
        self.frames: list[pl.DataFrame] = []
        self._merge = merge
        self._frames_max = frames_max
        self._pending_frames = 0
        self._pending_rows = 0

    def append(self, frame: pl.DataFrame) -> None:
        """Adds partial rows."""
        self.frames.append(frame)
        self._pending_frames += 1
        self._pending_rows += frame.height
        if self._pending_frames >= self._frames_max or self._pending_rows >= ROWS_PENDING_MAX:
            self._merge_newest()

    def compact(self) -> pl.DataFrame:
        """All rows, merged into one frame, which the store then holds."""
        if len(self.frames) > 1:
            self.frames = [self._merge(self.frames)]
        self._settled()
        return self.frames[0]

    def replace(self, frames: list[pl.DataFrame]) -> None:
        """Takes other frames instead of its own (after rows left the state)."""
        self.frames = frames

    def _merge_newest(self) -> None:
        first = len(self.frames) - self._pending_frames
        rows = sum(frame.height for frame in self.frames[first:])
        while first > 0 and self.frames[first - 1].height <= 2 * rows:
            first -= 1
            rows += self.frames[first].height
        if len(self.frames) - first > 1:
            self.frames[first:] = [self._merge(self.frames[first:])]
        self._settled()

    def _settled(self) -> None:
        self._pending_frames = 0
        self._pending_rows = 0
