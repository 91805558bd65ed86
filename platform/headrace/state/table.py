"""A table of keyed state: rows of typed columns under a key, of which rows with equal keys merge.

    add(rows)       recent rows, not merged yet
    seal()          recent rows, merged, become a run: immutable, sorted by key, searched by the kernel
    get(keys)       all rows of these keys, from recent rows and runs; the caller merges them
    numbered()      everything, as immutable frames with numbers, for a snapshot

Runs are merged by tiers. Merging is associative and does not depend on order, so a key's rows may lie in any
number of runs. A number means the same rows for the life of the table, so that a checkpoint writes only what is new.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from headrace.kernels.group.key_hash import key_hash
from headrace.kernels.state import runs as kernel
from headrace.kernels.state.key_index import sorted_order

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
            self._merge_due()

    def seal(self) -> None:
        """Makes a run of the recent rows, and merges runs that are due."""
        if not self._recent:
            return
        frames = [frame for _, frame in self._recent]
        self._recent, self._recent_rows = [], 0
        self._append(frames[0] if len(frames) == 1 else self._merge(frames))
        self._merge_due()

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

    def _merge_due(self) -> None:
        while (first := due([run.rows for run in self._runs])) is not None:
            self._merge_from(first)

    def _merge_from(self, first: int) -> None:
        frames = [run.frame for run in self._runs[first:]]
        del self._runs[first:]
        self._append(self._merge(frames))
        self._is_merged = self._is_merged or first == 0


# ---- tiers -----------------------------------------------------------------------------------------------------------
# Decides which runs of a table are merged: tiers of four, as in a log-structured merge tree. Pure.
#
# A tier holds runs of similar size, each tier four times as large as the one before. Four runs of a tier are merged,
# with all smaller runs that are newer. So a row is merged once per tier, and a table of n rows has at most three runs a
# tier. Merged are neighbours in time only, so that the order of runs stays the order in which their rows were written.

RUNS_A_TIER = 4
RUNS_MAX = 24
"""Runs of a table beyond which all of them are merged, whatever their sizes."""
_ROWS_LEAST = 4096
"""Runs up to this size are in the lowest tier."""


def due(rows: Sequence[int]) -> int | None:
    """The index of the first run to merge, together with all later ones; None: no merge is due.

    rows   the rows of each run, the newest last
    """
    if len(rows) > RUNS_MAX:
        return 0
    tiers = [_tier(count) for count in rows]
    for tier in sorted(set(tiers), reverse=True):
        first = len(tiers)
        while first > 0 and tiers[first - 1] <= tier:
            first -= 1
        if tiers[first:].count(tier) >= RUNS_A_TIER:
            return first
    return None


def _tier(rows: int) -> int:
    tier, most = 0, _ROWS_LEAST
    while rows > most:
        tier, most = tier + 1, most * RUNS_A_TIER
    return tier


# ---- runs ------------------------------------------------------------------------------------------------------------
# A run: immutable rows of a table, sorted by the hash of their key, so that rows are found by key.
#
# A run is searched by the kernel (`kernels.state`). Without kernels, and for key types that the kernel does not know, a
# run keeps the order of its rows and is searched by a join: the same rows, found more slowly.


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Rows of a table. number: unique within the table; columns: what the kernel searches, if it can."""

    number: int
    frame: pl.DataFrame
    columns: kernel.RunColumns | None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.frame.height


def sealed(number: int, frame: pl.DataFrame, keys: Sequence[str]) -> Run:
    """A run of these rows, in any order."""
    if not keys or not kernel.fits(frame.schema, keys):
        return Run(number, frame, None)
    hashes = key_hash(frame, keys)
    order = sorted_order(hashes)
    ordered = frame[pl.Series(order)]
    return Run(number, ordered, kernel.RunColumns(ordered, keys, hashes[order]))


def rows_of(runs: Sequence[Run], asked: pl.DataFrame, keys: Sequence[str]) -> list[pl.DataFrame]:
    """All rows of the runs with the asked keys, as frames; frames may differ in columns. asked: distinct keys."""
    if not runs or (keys and not asked.height):
        return []
    found = [_joined(run.frame, asked, keys) for run in runs if run.columns is None]
    if len(found) < len(runs):
        found += _searched(runs, asked, keys)
    return [frame for frame in found if frame.height]


def _joined(frame: pl.DataFrame, asked: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    return frame.join(asked, on=list(keys), how="semi", nulls_equal=True) if keys else frame


def _searched(runs: Sequence[Run], asked: pl.DataFrame, keys: Sequence[str]) -> list[pl.DataFrame]:
    hashes = key_hash(asked, keys)
    found: list[pl.DataFrame] = []
    # runs with the same columns are searched and gathered at once
    for names, alike in _alike(runs).items():
        _, run, row = kernel.find_all(alike, hashes, asked)
        if run.size:
            found.append(kernel.gather(alike, run, row, names))
    return found


def _alike(runs: Sequence[Run]) -> dict[tuple[str, ...], list[kernel.RunColumns]]:
    alike: dict[tuple[str, ...], list[kernel.RunColumns]] = {}
    for run in runs:
        if run.columns is not None:
            alike.setdefault(tuple(run.frame.columns), []).append(run.columns)
    return alike
