"""Partial frames that are merged when they are many: the columnar log-structured store of one piece of state.

A batch appends one partial frame, which costs nothing; frames are merged when read or when they are many. Merging
takes the newest frames and every older one that is at most twice as large as what is taken, so a row is merged a
logarithmic number of times, and what is held stays within `frames_max` frames and (besides `ROWS_PENDING_MAX` rows)
1.5 times the rows of the fully merged state.

Each frame has a number of its own, so that a snapshot is a list of references: the same number is the same rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import polars as pl

FRAMES_MAX = 64
"""Frames that are added before some are merged, where they are read once."""
ROWS_PENDING_MAX = 262_144
"""Rows in added frames before some are merged."""
FRAMES_LOOSE_MAX = 8
"""Added frames that a snapshot takes as they are; more are merged first, if they are small."""

Merge = Callable[[Sequence[pl.DataFrame]], pl.DataFrame]


class PartialStore:
    """Frames of one piece of state; what the rows mean is known by the merge function only."""

    __slots__ = ("_frames_max", "_merge", "_numbering", "_numbers", "_pending_frames", "_pending_rows", "frames")

    def __init__(self, merge: Merge, frames_max: int = FRAMES_MAX, numbering: Iterator[int] | None = None) -> None:
        """`numbering`: gives frames their numbers; stores that share it share no number."""
        self.frames: list[pl.DataFrame] = []
        self._numbers: list[int] = []
        self._numbering = itertools.count() if numbering is None else numbering
        self._merge = merge
        self._frames_max = frames_max
        self._pending_frames = 0
        self._pending_rows = 0

    def append(self, frame: pl.DataFrame) -> None:
        """Adds partial rows."""
        self.frames.append(frame)
        self._numbers.append(next(self._numbering))
        self._pending_frames += 1
        self._pending_rows += frame.height
        if self._pending_frames >= self._frames_max or self._pending_rows >= ROWS_PENDING_MAX:
            self._merge_from(self._newest()[0])

    def compact(self) -> pl.DataFrame:
        """All rows, merged into one frame, which the store then holds."""
        self._merge_from(0)
        return self.frames[0]

    def numbered(self) -> list[tuple[int, pl.DataFrame]]:
        """The frames with their numbers."""
        return list(zip(self._numbers, self.frames, strict=True))

    def tidy(self, rows_max: int) -> int:
        """Merges what was added since the last merge, if that is many frames and at most `rows_max` rows; gives the
        rows that were merged."""
        if self._pending_frames <= FRAMES_LOOSE_MAX:
            return 0
        first, rows = self._newest()
        if rows > rows_max:
            return 0
        self._merge_from(first)
        return rows

    def retain(self, kept: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
        """Keeps of every frame what `kept` gives (after rows left the state)."""
        before = self.numbered()
        self.frames, self._numbers = [], []
        for number, frame in before:
            rest = kept(frame)
            if rest.height:
                self.frames.append(rest)
                self._numbers.append(number if rest.height == frame.height else next(self._numbering))
        self._pending_frames = min(self._pending_frames, len(self.frames))

    def _newest(self) -> tuple[int, int]:
        """Where the frames begin that are worth merging now, and how many rows they have."""
        first = len(self.frames) - self._pending_frames
        rows = sum(frame.height for frame in self.frames[first:])
        while first > 0 and self.frames[first - 1].height <= 2 * rows:
            first -= 1
            rows += self.frames[first].height
        return first, rows

    def _merge_from(self, first: int) -> None:
        if len(self.frames) - first > 1:
            self.frames[first:] = [self._merge(self.frames[first:])]
            self._numbers[first:] = [next(self._numbering)]
        self._pending_frames = 0
        self._pending_rows = 0
