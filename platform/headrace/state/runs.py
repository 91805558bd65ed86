"""Runs of a table: immutable rows, sorted by the place of their key, so that rows are found by key.

A run is a set of parts of bounded size. A part lies in memory or in a local file, and its number means the same rows
wherever they lie. The parts of a run may overlap: a key's rows may lie in several.

`search` finds rows in parts, `merging` merges them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from headrace.kernels.state import runs as kernel
from headrace.state.combine import TableConfig
from headrace.state.merging import Reduce, merged_rows
from headrace.state.place import MOVED_BYTES_MIN, Account, Merges, Merging, RowFile, RowFiles, StatePlace
from headrace.state.row_groups import KeyOrder, SortedRows
from headrace.state.snapshot import Chunk, StoredRows

PART_ROWS_MAX = 1 << 18
"""Rows of a part that a merge makes, unless they are large."""
_SAMPLED_ROWS = 256
"""One row of so many is looked at to divide a merge into pieces."""
VERSION = "__version"
"""Column of chunks where it matters which rows were written later."""
_PLACE = "__place"

Bucket = int | None
"""None: the table has none."""


class Part:
    """Rows of a run. They may be moved to a local file while others read them: they are the same rows, in the same
    order, wherever they lie.

    number   unique within the table
    frame    the rows
    sorted   the rows in order, with their places; None: the table has no keys, or the rows are recent ones
    file     the local file that the rows are in; None: they are in memory
    origin   as of `Chunk`
    version  where it matters which rows were written later: that of a key's later rows is greater
    """

    def __init__(
        self,
        number: int,
        frame: pl.DataFrame,
        rows: SortedRows | None = None,
        *,
        origin: StoredRows | None = None,
        version: int | None = None,
    ) -> None:
        self.number = number
        self.frame = frame
        self.sorted = rows
        self.file: RowFile | None = None
        self.origin = origin
        self.version = version
        self._spans: dict[str, tuple[int, int] | None] = {}
        self._columns: tuple[SortedRows | None, kernel.RunColumns | None] = None, None

    @property
    def columns(self) -> kernel.RunColumns | None:
        """What the kernel searches, made for the first search; None: it knows no such keys."""
        made_of, columns = self._columns
        rows = self.sorted
        # another thread may have moved the rows while they were made
        if made_of is not rows and rows is not None:
            is_fit = kernel.fits(rows.frame.schema, rows.order.keys)
            columns = kernel.RunColumns(rows.frame, rows.order.keys, rows.places) if is_fit else None
            self._columns = rows, columns
        return columns

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(self.frame.columns)

    @property
    def memory_bytes(self) -> int:
        """Its bytes in memory, but for what the kernel adds to search it: one to two bytes a row."""
        return self._size_bytes if self.file is None else 0

    @cached_property
    def _size_bytes(self) -> int:
        return int(self.frame.estimated_size()) + (0 if self.sorted is None else self.sorted.places.nbytes)

    def span(self, name: str) -> tuple[int, int] | None:
        """The least and the greatest value of a column; None: it has other values than integers, or NULL."""
        if name not in self._spans:
            column = self.frame.get_column(name) if name in self.names else pl.Series(name, [None])
            is_known = column.dtype.is_integer() and len(column) > 0 and not column.null_count()
            self._spans[name] = (_whole(column.min()), _whole(column.max())) if is_known else None
        return self._spans[name]

    def filtered(self, number: int, mask: pl.Series) -> Part:
        """The rows for which `mask` is true, in memory."""
        frame = self.frame.filter(mask)
        rows = self.sorted
        if rows is not None:
            rows = SortedRows(rows.order, frame, rows.places[mask.to_numpy()])
        return Part(number, frame, rows, version=self.version)

    def without(self, name: str) -> Part:
        """The same rows without a column."""
        if name not in self.names:
            return self
        frame = self.frame.drop(name)
        rows = None if self.sorted is None else SortedRows(self.sorted.order, frame, self.sorted.places)
        return Part(self.number, frame, rows, version=self.version)

    @property
    def bytes(self) -> int:
        """Its bytes, wherever they lie."""
        return self.memory_bytes + self.file_bytes

    @property
    def chunk(self) -> Chunk:
        """The part as a snapshot holds it: with its version."""
        return _PartChunk(self)

    @property
    def file_bytes(self) -> int:
        """Its bytes in a local file."""
        return 0 if self.file is None else self.file.file_bytes

    def move(self, files: RowFiles) -> None:
        """Moves its rows to a local file, also for snapshots and merges that have the part.

        Raises UserError if there is no space.
        """
        if self.file is not None:
            return
        rows = self.sorted
        if rows is None:
            kept = files.kept(self.frame)
            self.frame = kept.frame
        else:
            kept = files.kept(self.frame.with_columns(pl.Series(_PLACE, rows.places)))
            frame, places = kept.frame.drop(_PLACE), kept.frame.get_column(_PLACE).to_numpy()
            self.frame, self.sorted = frame, SortedRows(rows.order, frame, places)
        self.file = kept
        # made of the rows in memory
        self._columns = None, None


class _PartChunk(Chunk):
    """A part as a snapshot holds it: when its rows move, the snapshot does not keep them in memory."""

    __slots__ = ("_part",)
    _part: Part

    def __init__(self, part: Part) -> None:
        object.__setattr__(self, "_part", part)
        object.__setattr__(self, "id", part.number)
        object.__setattr__(self, "origin", part.origin)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self._part.frame.height

    @property
    def frame(self) -> pl.DataFrame:
        """Its rows with their version, where they are now."""
        return self._with_version(self._part.frame)

    @property
    def sorted(self) -> SortedRows | None:
        """Its rows in order, where they are now."""
        rows = self._part.sorted
        return None if rows is None else SortedRows(rows.order, self._with_version(rows.frame), rows.places)

    def _with_version(self, frame: pl.DataFrame) -> pl.DataFrame:
        version = self._part.version
        # a literal takes no memory
        return frame if version is None else frame.with_columns(pl.lit(version, pl.Int64).alias(VERSION))


def _whole(value: object) -> int:
    assert isinstance(value, int), f"{value!r} is an integer"
    return value


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Rows of a table that were sealed, merged or restored together."""

    parts: tuple[Part, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(part.frame.height for part in self.parts)


@dataclass(frozen=True, slots=True)
class MergingRuns:
    """A merge of `count` runs of a bucket from `first` on.

    runs   those of the bucket when it began
    """

    bucket: Bucket
    runs: list[Run]
    first: int
    count: int
    merging: Merging[Run]


def part_of(
    number: int,
    frame: pl.DataFrame,
    order: KeyOrder | None,
    *,
    origin: StoredRows | None = None,
    version: int | None = None,
) -> Part:
    """A part of these rows, in any order. order: None without keys; origin, version: as of `Part`."""
    if order is None:
        return Part(number, frame, origin=origin, version=version)
    rows = order.sort(frame)
    return Part(number, rows.frame, rows, origin=origin, version=version)


def retained(run: Run, kept: Callable[[pl.DataFrame], pl.Series], numbers: Iterator[int]) -> Run:
    """The rows of a run for which `kept` is true, the mask of a frame."""
    masks = [kept(part.frame) for part in run.parts]
    return Run(
        tuple(
            # rows that are left need a new number, or the next checkpoint would refer to the old ones
            part if mask.all() else part.filtered(next(numbers), mask)
            for part, mask in zip(run.parts, masks, strict=True)
            if mask.any()
        )
    )


def unexpired(parts: Iterable[Part], config: TableConfig, now: int, numbers: Iterator[int]) -> list[Part]:
    """The parts without those all of whose rows have expired, which are not read. numbers: of parts that lose rows."""
    return [left for part in parts if (left := _unexpired(part, config, now, numbers)) is not None]


def _unexpired(part: Part, config: TableConfig, now: int, numbers: Iterator[int]) -> Part | None:
    assert config.ttl_ms is not None and config.written is not None, "rows expire"
    span, gone = part.span(config.written), now - config.ttl_ms
    if span is not None and span[1] <= gone:
        return None
    if span is None or span[0] > gone - config.ttl_ms:
        return part
    # rows of a long time were added together
    lives = config.living(part.frame, now, whole=False)
    return part if lives is None else part.filtered(next(numbers), lives)


# ---- moves -----------------------------------------------------------------------------------------------------------

RELEASED_BYTES_MIN = 1 << 20
"""Rows of fewer bytes are freed by the step: another thread would cost more."""
_MOVED_LATER_SHARE = 8
"""More than this part of the budget above it is moved to local files at once, by the thread of the step."""


def to_move(parts: Iterable[Part], excess_bytes: int, *, is_urgent: bool = False) -> list[Part]:
    """The largest parts that together have the excess: they are written once, small ones are merged soon. is_urgent:
    small parts if they have it."""
    sizes = [(part.memory_bytes, place, part) for place, part in enumerate(parts)]
    left, chosen = sorted(each for each in sizes if each[0] >= max(1, MOVED_BYTES_MIN)), list[Part]()
    while left and excess_bytes > 0:
        at = bisect_left(left, (excess_bytes,)) if is_urgent else len(left)
        size, _, part = left.pop(min(at, len(left) - 1))
        chosen.append(part)
        excess_bytes -= size
    return chosen


def _move(parts: Iterable[Part], files: RowFiles) -> None:
    for part in parts:
        part.move(files)


def release(runs: list[Run], merges: Merges) -> None:
    """Frees the rows of runs that the caller gives up: large ones beside its thread, because pages go back to the
    system, and those of a file may wait for the disk. The list becomes empty then."""
    if sum(part.bytes for run in runs for part in run.parts) >= RELEASED_BYTES_MIN:
        merges.start_short(lambda: _free(runs))


def _free(runs: list[Run]) -> None:
    parts = [part for run in runs for part in run.parts]
    # the caller has the list still
    runs.clear()
    while parts:
        # one by one: the interpreter's lock is held meanwhile
        parts.pop()


class Moves:
    """Moves parts of a table to local files, where its slot holds more than its budget: beside the thread of the step,
    which moves parts itself only if more than `_MOVED_LATER_SHARE` of the budget would be left above it.

    Raises UserError if there is no space, also of moves that were started before.
    """

    def __init__(self, place: StatePlace) -> None:
        self._place = place
        self._later_bytes = (place.budget.limit_bytes or 0) // _MOVED_LATER_SHARE
        self._moving: Merging[None] | None = None
        self._parts: list[Part] = []
        """Those that are being moved."""

    def within_budget(self, part: Part, account: Account) -> Part:
        """A new part, in a local file if the slot has no room for it; counted in `account`."""
        self._place.limit_pages()
        size = part.memory_bytes
        account.memory_bytes += size
        if self._place.files is not None:
            _move(to_move([part], self._place.budget.excess_bytes), self._place.files)
        account.memory_bytes += part.memory_bytes - size
        return part

    def start(self, parts: Iterable[Part], excess_bytes: int, *, is_merging: bool) -> None:
        """Begins to move parts with the excess, unless some are being moved. is_merging: parts may soon be others, so
        that half of what may be left above the budget stays."""
        if self._moving is not None and self._moving.done():
            moving, self._moving, self._parts = self._moving, None, []
            moving.result()
        files = self._place.files
        if self._moving is not None or files is None or excess_bytes <= (self._later_bytes // 2 if is_merging else 0):
            return
        if chosen := to_move(parts, excess_bytes):
            self._parts, self._moving = chosen, self._place.merges.start_short(lambda: _move(chosen, files))

    def at_once(self, parts: Iterable[Part], excess_bytes: int) -> None:
        """Moves parts until no more of the excess is left than may be, but for what is being moved."""
        own = {id(part) for part in self._parts}
        excess_bytes -= self._later_bytes + sum(part.memory_bytes for part in self._parts)
        if excess_bytes > 0 and self._place.files is not None:
            others = (part for part in parts if id(part) not in own)
            _move(to_move(others, excess_bytes, is_urgent=True), self._place.files)


# ---- merges ----------------------------------------------------------------------------------------------------------


def merged(
    parts: Sequence[Part], order: KeyOrder | None, reduce: Reduce | None, *, piece_bytes: int
) -> Iterator[SortedRows | pl.DataFrame]:
    """The rows of all parts, the earlier ones first, merged, in pieces as of `bounds`; all rows of a key are in one
    piece. Without an order rows are not sorted."""
    if order is None:
        assert reduce is not None, "rows without keys merge"
        yield reduce([part.frame for part in parts])
        return
    rows = [part.sorted for part in parts if part.sorted is not None]
    for spans in _spans(parts, bounds(parts, piece_bytes)):
        slices = [
            SortedRows(order, rows[index].frame.slice(begin, end - begin), rows[index].places[begin:end])
            for index, begin, end in spans
        ]
        if slices:
            yield merged_rows(slices, order, reduce)


def bounds(parts: Sequence[Part], piece_bytes: int) -> list[np.uint64]:
    """Places that divide the rows of all parts into pieces of about `PART_ROWS_MAX` rows and `piece_bytes` at most."""
    places = [part.sorted.places for part in parts if part.sorted is not None]
    rows, size = sum(len(each) for each in places), sum(part.bytes for part in parts)
    pieces = max(-(-rows // PART_ROWS_MAX), -(-size // piece_bytes))
    if pieces <= 1 or not places:
        return []
    sample = np.sort(np.concatenate([each[::_SAMPLED_ROWS] for each in places]))
    chosen = [len(sample) * piece // pieces for piece in range(1, pieces)]
    return list(np.unique(sample[chosen]))


def cut(parts: Sequence[Part], at: Sequence[np.uint64]) -> Iterator[list[pl.DataFrame]]:
    """The rows before the first bound, those up to the next, .., those from the last one on: frames of those parts that
    have some. Parts without keys are not divided."""
    for spans in _spans(parts, at):
        yield [parts[index].frame.slice(begin, end - begin) for index, begin, end in spans]


def _spans(parts: Sequence[Part], at: Sequence[np.uint64]) -> Iterator[list[tuple[int, int, int]]]:
    """Between two bounds: (index of the part, first row, end) of the parts that have rows there."""
    begins = [0] * len(parts)
    for bound in [*at, None]:
        ends = [_rows_before(part, bound) for part in parts]
        yield [(index, begins[index], end) for index, end in enumerate(ends) if begins[index] < end]
        begins = ends


def _rows_before(part: Part, bound: np.uint64 | None) -> int:
    if bound is None or part.sorted is None:
        return part.frame.height
    return int(np.searchsorted(part.sorted.places, bound))


# ---- tiers -----------------------------------------------------------------------------------------------------------
# Decides which runs are merged: tiers of four, as in a log-structured merge tree.
#
# A tier holds runs of similar size, each tier four times as large as the one before. Four runs of a tier are merged,
# with all smaller runs that are newer. So a row is merged once per tier, and n rows have at most three runs a tier.
# Merged are neighbours in time only, so that the order of runs stays the order in which their rows were written.

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
