"""A table of keyed state: rows of typed columns under a key, of which rows with equal keys merge.

    add(rows)       recent rows, not merged yet
    seal()          recent rows, merged, become a run: immutable, sorted by key (`state.runs`)
    get(keys)       all rows of these keys, from recent rows and runs; the caller merges them
    chunks()        everything, as immutable frames with numbers, for a snapshot

Runs are merged by tiers. Merging is associative and does not depend on order, so a key's rows may lie in any
number of runs. A number means the same rows for the life of the table, so that a checkpoint writes only what is new.

Beyond the slot's budget the largest parts of runs move to local files (`state.place`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from headrace.state.place import MOVED_BYTES_MIN, Account, Merging, StatePlace
from headrace.state.row_groups import KeyOrder
from headrace.state.runs import Merge, Part, Run, merged, part_of, rows_of
from headrace.state.snapshot import Chunk, RestoredFrame

ROWS_RECENT_MAX = 65_536
"""Recent rows that are sealed."""
SEALED_BYTES_MIN = 1 << 20
"""Recent rows of so many bytes are sealed earlier if the slot has no room for them."""
FRAMES_RECENT_MAX = 64
"""Recent frames that are sealed."""
ROWS_KEPT_MIN = 8_192
"""Rows of a restored frame that stays alone, so that checkpoints name its file again."""
GATHERED_ROWS_MAX = 32_768
"""Rows of smaller restored frames that become a part."""
FRAMES_LOOSE_MAX = 8
"""Recent frames that a snapshot refers to; more are sealed first, if they are small."""
FRAMES_SEARCHED_MAX = 4
"""Recent frames that are sealed where every batch searches them."""


class Table:
    """The rows of one part of a step's state. Used by one thread, but for merges, which only read runs."""

    def __init__(
        self,
        keys: Sequence[str],
        merge: Merge,
        place: StatePlace | None = None,
        *,
        numbers: Iterator[int] | None = None,
    ) -> None:
        """keys: the columns by which rows are found; none: all rows belong together. place: None: in memory. numbers:
        those of its chunks; tables of one state share them."""
        self._place = StatePlace() if place is None else place
        self._order = KeyOrder(tuple(keys), self._place.max_parallelism) if keys else None
        self._merge = merge
        self._numbers = itertools.count() if numbers is None else numbers
        self._recent: list[tuple[int, pl.DataFrame]] = []
        self._recent_rows = self._recent_bytes = 0
        self._runs: list[Run] = []
        self._is_merged = True
        self._merging: _MergingRuns | None = None
        self._account = self._place.budget.account()
        self._made = self._place.budget.account()
        """What a merge has made so far: its thread writes it."""

    @property
    def rows(self) -> int:
        """Rows in recent frames and runs: a key counts as often as it has rows that are not merged yet."""
        return self._recent_rows + sum(run.rows for run in self._runs)

    @property
    def bytes(self) -> int:
        """Bytes of its rows, wherever they lie."""
        return self._account.memory_bytes + self._account.file_bytes

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self._runs)

    def add(self, rows: pl.DataFrame, *, frames_max: int = FRAMES_RECENT_MAX) -> None:
        """Adds rows. frames_max: recent frames beyond which they are sealed."""
        self._recent.append((next(self._numbers), rows))
        self._recent_rows += rows.height
        size = int(rows.estimated_size())
        self._recent_bytes += size
        self._account.memory_bytes += size
        if len(self._recent) >= frames_max or self._recent_rows >= ROWS_RECENT_MAX:
            self.seal()

    def restore(self, frames: Iterable[RestoredFrame]) -> None:
        """Adds rows that were written before, several of a key among them, as they are read. They become one run."""
        restoring = Restoring(self)
        for restored in frames:
            restoring.add(restored)
        restoring.end()

    def restored_part(self, restored: RestoredFrame) -> Part:
        """A part of restored rows, which `add_restored` adds: in a local file if the slot has no room for it."""
        part = part_of(next(self._numbers), restored.frame, self._order, origin=restored.origin)
        return self._within_budget(part, self._account)

    def add_restored(self, parts: Sequence[Part]) -> None:
        """Adds these parts as one run."""
        if parts:
            self._append(Run(tuple(parts)))
            self._is_merged = False
            self._merge_due()

    def retain(self, kept: Callable[[pl.DataFrame], pl.Series]) -> None:
        """Keeps the rows for which `kept` is true, the mask of a frame."""
        self._finish_merge()
        self._seal()
        self._runs = [run for each in self._runs if (run := self._retained(each, kept)).parts]
        self.shrink()

    def _retained(self, run: Run, kept: Callable[[pl.DataFrame], pl.Series]) -> Run:
        masks = [kept(part.frame) for part in run.parts]
        return Run(
            tuple(
                # rows that are left need a new number, or the next checkpoint would refer to the old ones
                part if mask.all() else part.filtered(next(self._numbers), mask)
                for part, mask in zip(run.parts, masks, strict=True)
                if mask.any()
            )
        )

    def seal(self) -> None:
        """Makes a run of the recent rows, and merges runs that are due."""
        if self._recent:
            self._seal()
            self._merge_due()

    def _seal(self) -> None:
        if not self._recent:
            return
        rows = self._merged_recent()
        self._recent, self._recent_rows, self._recent_bytes = [], 0, 0
        self._append(Run((part_of(next(self._numbers), rows, self._order),)))

    def _merged_recent(self) -> pl.DataFrame:
        frames = [frame for _, frame in self._recent]
        return frames[0] if len(frames) == 1 else self._merge(frames)

    def tidy(self, rows_max: int) -> int:
        """Seals recent rows if they are in many frames and at most `rows_max`; returns how many it sealed."""
        rows = self._recent_rows
        if len(self._recent) <= FRAMES_LOOSE_MAX or rows > rows_max:
            return 0
        self.seal()
        return rows

    def get(self, keys: pl.DataFrame) -> list[pl.DataFrame]:
        """All rows of these keys. keys: the key columns, distinct."""
        recent = [Part(number, frame) for number, frame in self._recent]
        return rows_of([*recent, *self._parts()], keys, self._order)

    def get_sealed(self, keys: pl.DataFrame) -> list[pl.DataFrame]:
        """The rows of these keys in runs; for a caller that knows of all recent rows."""
        found = rows_of(self._parts(), keys, self._order)
        self._place.limit_pages()
        return found

    def compact(self) -> pl.DataFrame:
        """Merges all rows; returns them. The table has rows."""
        if not self._runs:
            # a few rows need no order
            rows = self._merged_recent()
            if rows.height < ROWS_RECENT_MAX:
                self._recent = [(next(self._numbers) if len(self._recent) > 1 else self._recent[0][0], rows)]
                self._recent_rows, self._recent_bytes = rows.height, int(rows.estimated_size())
                self._count()
                return rows
        self._seal()
        self._finish_merge()
        if len(self._runs) > 1 or not self._is_merged:
            self._start_merge(0)
            self._finish_merge()
        return pl.concat([part.frame for part in self._parts()], how="diagonal")

    def chunks(self) -> list[Chunk]:
        """All rows, as immutable frames with their numbers."""
        return [*(part.chunk for part in self._parts()), *(Chunk(number, frame) for number, frame in self._recent)]

    def frames(self) -> list[pl.DataFrame]:
        """All rows, as frames."""
        return [*(part.frame for part in self._parts()), *(frame for _, frame in self._recent)]

    @property
    def is_merged(self) -> bool:
        """Whether its rows are one frame that has one row per key."""
        parts = self._parts()
        return len(parts) + len(self._recent) == 1 and (self._is_merged or not parts)

    def sealed(self) -> list[Part]:
        """All rows, as parts."""
        self._seal()
        return self._parts()

    def _parts(self) -> list[Part]:
        return [part for run in self._runs for part in run.parts]

    # ------------------------------------------------------------------ merges

    def _append(self, run: Run) -> None:
        self._runs.append(run)
        self.shrink()

    def _merge_due(self) -> None:
        while True:
            if self._merging is not None and (self._merging.merging.done() or len(self._runs) > RUNS_MAX):
                self._finish_merge()
            if self._merging is not None or (first := due([run.rows for run in self._runs])) is None:
                return
            self._start_merge(first)

    def _start_merge(self, first: int) -> None:
        runs = self._runs[first:]
        self._merging = _MergingRuns(first, len(runs), self._place.merges.start(lambda: self._merged(runs)))

    def _merged(self, runs: Sequence[Run]) -> Run:
        """In the thread of merges, which shares with the table's thread what never changes."""
        pieces = merged([part for run in runs for part in run.parts], self._merge, self._place.budget.piece_bytes)
        made = (part_of(next(self._numbers), rows, self._order) for rows in pieces)
        return Run(tuple(self._within_budget(part, self._made) for part in made))

    def _finish_merge(self) -> None:
        """Waits for the merge that runs, and takes its run. Raises what the merge raised."""
        if self._merging is None:
            return
        merging, self._merging = self._merging, None
        run = merging.merging.result()
        self._runs[merging.first : merging.first + merging.count] = [run]
        self._made.memory_bytes = 0
        self._is_merged = self._is_merged or (merging.first == 0 and len(self._runs) == 1)
        self.shrink()

    # ------------------------------------------------------------------ the budget

    def shrink(self) -> None:
        """Counts what is in memory, and moves the largest parts to local files where that is more than the budget.

        Raises UserError for more than the budget without local files.
        """
        self._count()
        if self._account.excess_bytes:
            self._place.require_room()
            self._move(self._parts(), self._account.excess_bytes)
            self._count()
        if self._account.excess_bytes and self._recent_bytes >= SEALED_BYTES_MIN and self._place.files is not None:
            # as a run they can move, too
            self.seal()

    def _within_budget(self, part: Part, account: Account) -> Part:
        """A new part, in a local file if the slot has no room for it; counted in `account`."""
        self._place.limit_pages()
        size = part.memory_bytes
        account.memory_bytes += size
        self._move([part], self._place.budget.excess_bytes)
        account.memory_bytes += part.memory_bytes - size
        return part

    def _move(self, parts: Sequence[Part], excess_bytes: int) -> None:
        """Moves the largest of the parts that together have the excess to local files."""
        files = self._place.files
        if files is None:
            return
        for part in sorted(parts, key=lambda each: -each.memory_bytes):
            size = part.memory_bytes
            if excess_bytes <= 0 or size < MOVED_BYTES_MIN:
                break
            if part.file is None:
                part.move(files)
                excess_bytes -= size

    def _count(self) -> None:
        parts = self._parts()
        self._account.memory_bytes = self._recent_bytes + sum(part.memory_bytes for part in parts)
        self._account.file_bytes = sum(part.file_bytes for part in parts)


@dataclass(frozen=True, slots=True)
class _MergingRuns:
    """A merge of `count` runs from `first` on."""

    first: int
    count: int
    merging: Merging[Run]


class Restoring:
    """Rows that a table gets back, frame by frame. Small frames are gathered: state files have many of them, which are
    written again."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._parts: list[Part] = []
        self._small: list[pl.DataFrame] = []
        self._small_rows = 0

    def add(self, restored: RestoredFrame) -> None:
        """Adds the rows of a frame, in a local file if the slot has no room for them."""
        if restored.frame.height >= ROWS_KEPT_MIN:
            self._parts.append(self._table.restored_part(restored))
        elif restored.frame.height:
            self._small.append(restored.frame)
            self._small_rows += restored.frame.height
        if self._small_rows >= GATHERED_ROWS_MAX:
            self._gather()

    def end(self) -> None:
        """Makes a run of the rows that were added."""
        if self._small:
            self._gather()
        self._table.add_restored(self._parts)

    def _gather(self) -> None:
        gathered = RestoredFrame(pl.concat(self._small, how="diagonal", rechunk=True))
        self._small, self._small_rows = [], 0
        self._parts.append(self._table.restored_part(gathered))


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
