"""A table of keyed state: rows of typed columns under a key, of which rows with equal keys merge.

    add(rows)       recent rows, not merged yet
    seal()          recent rows, merged, become a run: immutable, sorted by key, searched by the kernel
    get(keys)       all rows of these keys, from recent rows and runs; the caller merges them
    numbered()      everything, as immutable frames with numbers, for a snapshot

Runs are merged by tiers (`tiers`). Merging is associative and does not depend on order, so a key's rows may lie in any
number of runs. A number means the same rows for the life of the table, so that a checkpoint writes only what is new.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

import polars as pl

from headrace.state.table.run import Run, rows_of, sealed
from headrace.state.table.tiers import due

ROWS_RECENT_MAX = 65_536
"""Recent rows that are sealed."""
FRAMES_RECENT_MAX = 64
"""Recent frames that are sealed."""
FRAMES_SEARCHED_MAX = 4
"""Recent frames that are sealed where every batch searches them."""

Merge = Callable[[Sequence[pl.DataFrame]], pl.DataFrame]
"""Merges frames, which may differ in columns, to one with a row per key."""


class Table:
    """The rows of one part of a step's state. Used by one thread."""

    def __init__(self, keys: Sequence[str], merge: Merge) -> None:
        """keys: the columns by which rows are found; none: all rows belong together."""
        self._keys = list(keys)
        self._merge = merge
        self._numbers = itertools.count()
        self._recent: list[tuple[int, pl.DataFrame]] = []
        self._recent_rows = 0
        self._runs: list[Run] = []
        self._is_merged = True

    @property
    def rows(self) -> int:
        """Rows in recent frames and runs: a key counts as often as it has rows that are not merged yet."""
        return self._recent_rows + sum(run.rows for run in self._runs)

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self._runs)

    def add(self, rows: pl.DataFrame, *, frames_max: int = FRAMES_RECENT_MAX) -> None:
        """Adds rows. frames_max: recent frames beyond which they are sealed."""
        self._recent.append((next(self._numbers), rows))
        self._recent_rows += rows.height
        if len(self._recent) >= frames_max or self._recent_rows >= ROWS_RECENT_MAX:
            self.seal()

    def restore(self, frames: Iterable[pl.DataFrame]) -> None:
        """Adds rows that were written before, several of a key among them."""
        found = [frame for frame in frames if frame.height]
        if found:
            # as one run: state files have many small frames
            self._append(pl.concat(found, how="diagonal", rechunk=True))
            self._is_merged = False

    def seal(self) -> None:
        """Makes a run of the recent rows, and merges runs that are due."""
        if not self._recent:
            return
        frames = [frame for _, frame in self._recent]
        self._recent, self._recent_rows = [], 0
        self._append(frames[0] if len(frames) == 1 else self._merge(frames))
        while (first := due([run.rows for run in self._runs])) is not None:
            self._merge_from(first)

    def get(self, keys: pl.DataFrame) -> list[pl.DataFrame]:
        """All rows of these keys. keys: the key columns, distinct."""
        recent = [Run(number, frame, None) for number, frame in self._recent]
        return rows_of([*recent, *self._runs], keys, self._keys)

    def get_sealed(self, keys: pl.DataFrame) -> list[pl.DataFrame]:
        """The rows of these keys in runs; for a caller that knows of all recent rows."""
        return rows_of(self._runs, keys, self._keys)

    def compact(self) -> pl.DataFrame:
        """Merges all rows into one run; returns its rows. The table has rows."""
        self.seal()
        if len(self._runs) > 1 or not self._is_merged:
            self._merge_from(0)
        return self._runs[0].frame

    def numbered(self) -> list[tuple[int, pl.DataFrame]]:
        """All rows, as immutable frames with their numbers."""
        return [*((run.number, run.frame) for run in self._runs), *self._recent]

    def _append(self, rows: pl.DataFrame) -> None:
        self._runs.append(sealed(next(self._numbers), rows, self._keys))

    def _merge_from(self, first: int) -> None:
        frames = [run.frame for run in self._runs[first:]]
        del self._runs[first:]
        self._append(self._merge(frames))
        self._is_merged = self._is_merged or first == 0
