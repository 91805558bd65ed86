"""Runs of a table: immutable rows, sorted by the place of their key, so that rows are found by key.

A run is a set of parts of bounded size. A part lies in memory or in a local file, and its number means the same rows
wherever they lie. The parts of a run may overlap: a key's rows may lie in several.

A part is searched by the kernel (`kernels.state`). Without kernels, and for key types that the kernel does not know, it
is searched by a join: the same rows, found more slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from headrace.kernels.state import runs as kernel
from headrace.state.place import RowFile, RowFiles
from headrace.state.row_groups import KeyOrder, SortedRows
from headrace.state.snapshot import Chunk, StoredRows

PART_ROWS_MAX = 1 << 18
"""Rows of a part that a merge makes, unless they are large."""
_SAMPLED_ROWS = 256
"""One row of so many is looked at to divide a merge into pieces."""
_PLACE = "__place"

Merge = Callable[[Sequence[pl.DataFrame]], pl.DataFrame]
"""Merges frames, which may differ in columns, to one with a row per key."""


class Part:
    """Rows of a run. Its table may move them to a local file while others read them: they are the same rows, in the
    same order, wherever they lie.

    number   unique within the table
    frame    the rows
    sorted   the rows in order, with their places; None: the table has no keys
    file     the local file that the rows are in; None: they are in memory
    origin   as of `Chunk`
    """

    def __init__(
        self, number: int, frame: pl.DataFrame, rows: SortedRows | None = None, origin: StoredRows | None = None
    ) -> None:
        self.number = number
        self.frame = frame
        self.sorted = rows
        self.file: RowFile | None = None
        self.origin = origin

    @cached_property
    def columns(self) -> kernel.RunColumns | None:
        """What the kernel searches, made for the first search; None: it knows no such keys."""
        rows = self.sorted
        if rows is None or not kernel.fits(self.frame.schema, rows.order.keys):
            return None
        return kernel.RunColumns(self.frame, rows.order.keys, rows.places)

    @property
    def memory_bytes(self) -> int:
        """Its bytes in memory, but for what the kernel adds to search it: half a byte a row."""
        if self.file is not None:
            return 0
        return int(self.frame.estimated_size()) + (0 if self.sorted is None else self.sorted.places.nbytes)

    def filtered(self, number: int, mask: pl.Series) -> Part:
        """The rows for which `mask` is true, in memory."""
        frame = self.frame.filter(mask)
        if self.sorted is None:
            return Part(number, frame)
        return Part(number, frame, SortedRows(self.sorted.order, frame, self.sorted.places[mask.to_numpy()]))

    @property
    def bytes(self) -> int:
        """Its bytes, wherever they lie."""
        return self.memory_bytes + self.file_bytes

    @property
    def chunk(self) -> Chunk:
        """The part as a snapshot holds it."""
        return _PartChunk(self)

    @property
    def file_bytes(self) -> int:
        """Its bytes in a local file."""
        return 0 if self.file is None else self.file.file_bytes

    def move(self, files: RowFiles) -> None:
        """Moves its rows to a local file, also for snapshots and merges that have the part.

        Raises UserError if there is no space.
        """
        if self.sorted is None:
            kept = files.kept(self.frame)
            self.frame = kept.frame
        else:
            kept = files.kept(self.frame.with_columns(pl.Series(_PLACE, self.sorted.places)))
            frame, places = kept.frame.drop(_PLACE), kept.frame.get_column(_PLACE).to_numpy()
            self.frame, self.sorted = frame, SortedRows(self.sorted.order, frame, places)
        self.file = kept
        # made of the rows in memory
        self.__dict__.pop("columns", None)


class _PartChunk(Chunk):
    """A part as a snapshot holds it: when its rows move, the snapshot does not keep them in memory."""

    __slots__ = ("_part",)
    _part: Part

    def __init__(self, part: Part) -> None:
        object.__setattr__(self, "_part", part)
        object.__setattr__(self, "id", part.number)
        object.__setattr__(self, "origin", part.origin)

    @property
    def frame(self) -> pl.DataFrame:
        """Its rows, where they are now."""
        return self._part.frame

    @property
    def sorted(self) -> SortedRows | None:
        """Its rows in order, where they are now."""
        return self._part.sorted


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Rows of a table that were sealed, merged or restored together."""

    parts: tuple[Part, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(part.frame.height for part in self.parts)


def part_of(number: int, frame: pl.DataFrame, order: KeyOrder | None, *, origin: StoredRows | None = None) -> Part:
    """A part of these rows, in any order. order: None without keys; origin: as of `Part`."""
    if order is None:
        return Part(number, frame, origin=origin)
    rows = order.sort(frame)
    return Part(number, rows.frame, rows, origin)


# ---- search ----------------------------------------------------------------------------------------------------------


def rows_of(parts: Sequence[Part], asked: pl.DataFrame, order: KeyOrder | None) -> list[pl.DataFrame]:
    """All rows of the parts with the asked keys, as frames; frames may differ in columns. asked: distinct keys."""
    if not parts or (order is not None and not asked.height):
        return []
    keys = () if order is None else order.keys
    found = [_joined(part.frame, asked, keys) for part in parts if part.columns is None]
    if order is not None and len(found) < len(parts):
        found += _searched(parts, asked, order)
    return [frame for frame in found if frame.height]


def _joined(frame: pl.DataFrame, asked: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    return frame.join(asked, on=list(keys), how="semi", nulls_equal=True) if keys else frame


def _searched(parts: Sequence[Part], asked: pl.DataFrame, order: KeyOrder) -> list[pl.DataFrame]:
    places = order.places(asked)
    found: list[pl.DataFrame] = []
    # parts with the same columns are searched and gathered at once
    for names, alike in _alike(parts).items():
        _, run, row = kernel.find_all(alike, places, asked)
        if run.size:
            found.append(kernel.gather(alike, run, row, names))
    return found


def _alike(parts: Sequence[Part]) -> dict[tuple[str, ...], list[kernel.RunColumns]]:
    alike: dict[tuple[str, ...], list[kernel.RunColumns]] = {}
    for part in parts:
        if part.columns is not None:
            alike.setdefault(tuple(part.frame.columns), []).append(part.columns)
    return alike


# ---- merges ----------------------------------------------------------------------------------------------------------


def merged(parts: Sequence[Part], merge: Merge, piece_bytes: int) -> Iterator[pl.DataFrame]:
    """The rows of all parts, merged, in pieces as of `bounds`; all rows of a key are in one piece."""
    for slices in cut(parts, bounds(parts, piece_bytes)):
        if slices:
            yield merge(slices)


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
    begins = [0] * len(parts)
    for bound in [*at, None]:
        ends = [_rows_before(part, bound) for part in parts]
        spans = zip(parts, begins, ends, strict=True)
        yield [part.frame.slice(begin, end - begin) for part, begin, end in spans if begin < end]
        begins = ends


def _rows_before(part: Part, bound: np.uint64 | None) -> int:
    if bound is None or part.sorted is None:
        return part.frame.height
    return int(np.searchsorted(part.sorted.places, bound))
