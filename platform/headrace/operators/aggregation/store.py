"""Partial frames, merged when there are many: the columnar log-structured merge store of one part of state.

A batch appends one partial frame without merging it. Frames are merged when they are read, or when there are many. A
merge includes the frames added since the last merge, and every older frame that is at most twice as large as all
frames included so far. So a row is merged a logarithmic number of times. Between two merges the store adds at most
`frames_max` frames. Besides `ROWS_PENDING_MAX` rows, it holds at most 1.5 times the rows of the fully merged state.

Each frame has a unique number, so that a snapshot is a list of references: the same number means the same rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import polars as pl

from headrace.state.place import RowFile, RowFiles

FRAMES_MAX = 64
"""Default number of frames added between merges, for stores that are read once."""
ROWS_PENDING_MAX = 262_144
"""Rows in added frames that trigger a merge."""
FRAMES_LOOSE_MAX = 8
"""Most added frames that a snapshot refers to without merging them; more are merged first, if they are small."""

Merge = Callable[[Sequence[pl.DataFrame]], pl.DataFrame]


class PartialStore:
    """The frames of one part of state. Only the merge function interprets the rows."""

    __slots__ = (
        "_files",
        "_frames_max",
        "_merge",
        "_merged_bytes_max",
        "_numbering",
        "_numbers",
        "_pending_frames",
        "_pending_rows",
        "_unique",
        "frames",
        "frames_max",
    )

    def __init__(
        self,
        merge: Merge,
        frames_max: int = FRAMES_MAX,
        *,
        numbering: Iterator[int] | None = None,
        merged_bytes_max: int | None = None,
    ) -> None:
        """numbering: source of frame numbers; stores that share it never use the same number. merged_bytes_max: a frame
        of more bytes is not merged with later ones before it is read."""
        self.frames: list[pl.DataFrame] = []
        self._files: dict[int, RowFile] = {}
        self._merged_bytes_max = merged_bytes_max
        self._numbers: list[int] = []
        self._numbering = itertools.count() if numbering is None else numbering
        self._merge = merge
        self.frames_max = frames_max
        self._pending_frames = 0
        self._pending_rows = 0
        self._unique = True

    @property
    def is_merged(self) -> bool:
        """Whether the store is one frame that has one row per group."""
        return len(self.frames) == 1 and self._unique

    def append(self, frame: pl.DataFrame, *, unique: bool = True) -> None:
        """Adds partial rows. unique: one row per group, unlike restored rows, which may come from several stores."""
        self._unique = unique and (self._unique or not self.frames)
        self.frames.append(frame)
        self._numbers.append(next(self._numbering))
        self._pending_frames += 1
        self._pending_rows += frame.height
        if self._pending_frames >= self.frames_max or self._pending_rows >= ROWS_PENDING_MAX:
            self._merge_from(self._newest()[0])

    def compact(self) -> pl.DataFrame:
        """Merges all rows into one frame, which the store then holds, and returns it."""
        self._merge_from(0)
        return self.frames[0]

    @property
    def memory_bytes(self) -> int:
        """Bytes of the frames in memory."""
        return sum(int(frame.estimated_size()) for number, frame in self.numbered() if number not in self._files)

    @property
    def file_bytes(self) -> int:
        """Bytes of the frames in local files."""
        return sum(file.file_bytes for file in self._files.values())

    def move(self, files: RowFiles, *, bytes_min: int) -> None:
        """Moves frames of at least `bytes_min` bytes to local files; they keep their numbers."""
        for place, (number, frame) in enumerate(self.numbered()):
            if number not in self._files and frame.estimated_size() >= bytes_min:
                self._files[number] = kept = files.kept(frame)
                self.frames[place] = kept.frame

    def numbered(self) -> list[tuple[int, pl.DataFrame]]:
        """The frames with their numbers."""
        return list(zip(self._numbers, self.frames, strict=True))

    def tidy(self, rows_max: int) -> int:
        """Merges the frames added since the last merge, if they are many and have at most `rows_max` rows; returns the
        number of rows merged."""
        if self._pending_frames <= FRAMES_LOOSE_MAX:
            return 0
        first, rows = self._newest()
        if rows > rows_max:
            return 0
        self._merge_from(first)
        return rows

    def retain(self, kept: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
        """Replaces every frame by `kept(frame)`, which returns some of its rows."""
        before = self.numbered()
        self.frames, self._numbers = [], []
        for number, frame in before:
            rest = kept(frame)
            if rest.height:
                self.frames.append(rest)
                # a frame that lost rows needs a new number, or the next checkpoint would refer to its old file
                self._numbers.append(number if rest.height == frame.height else next(self._numbering))
        self._pending_frames = min(self._pending_frames, len(self.frames))
        self._forget_files()

    def _newest(self) -> tuple[int, int]:
        """The index of the first frame to merge now, and the number of rows of all frames from there on."""
        first = len(self.frames) - self._pending_frames
        rows = sum(frame.height for frame in self.frames[first:])
        while first > 0 and self.frames[first - 1].height <= 2 * rows and self._is_mergeable(self.frames[first - 1]):
            first -= 1
            rows += self.frames[first].height
        return first, rows

    def _merge_from(self, first: int) -> None:
        if len(self.frames) - first > 1:
            self.frames[first:] = [self._merge(self.frames[first:])]
            self._unique = self._unique or first == 0
            self._numbers[first:] = [next(self._numbering)]
            self._forget_files()
        self._pending_frames = 0
        self._pending_rows = 0

    def _is_mergeable(self, frame: pl.DataFrame) -> bool:
        return self._merged_bytes_max is None or frame.estimated_size() <= self._merged_bytes_max

    def _forget_files(self) -> None:
        held = set(self._numbers)
        self._files = {number: file for number, file in self._files.items() if number in held}
