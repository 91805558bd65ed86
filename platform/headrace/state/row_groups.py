"""The row groups of a state file as its footer describes them: place and checksum in the file, chunk, range of keys.

    headrace.row_groups = {"max_parallelism": 128, "groups": [{"chunk": 0, "rows": 8000, "offset": 4, "bytes": 90125,
                           "checksum": "xxh64:..", "first": [0, 17], "last": [3, 5]}, ..]}

The rows of a keyed chunk are sorted by (key group, upper 48 bits of the key's hash), and `first` and `last` are those
of the first and the last row. So a reader that has the footer knows which byte ranges can hold a key group or a key,
and can verify each range alone. Rows without a key keep their order, and have neither.

This module must not know Parquet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import TypeAdapter

from headrace.kernels.group.key_hash import key_hash
from headrace.kernels.state.key_index import sorted_order
from headrace.state.snapshot import StateKind, StateSnapshot

ROW_GROUP_ROWS_MAX = 8192
"""Rows of a row group: few enough that a key group of a large state takes few others along."""

Places = npt.NDArray[np.uint64]
KeyPlace = tuple[int, int]
"""(key group, hash >> 16) of a row's key: the order of rows in a keyed chunk."""
_HASH_BITS = 48
"""Bits of the hash in a place: with those of the key group it makes 64, which are sorted at once."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group.

    chunk           number of its chunk in the file: row groups of one chunk follow each other
    offset, bytes   its place in the file
    checksum        of these bytes
    first, last     of its first and last row; None: its rows have no key
    """

    chunk: int
    rows: int
    offset: int
    bytes: int
    checksum: str
    first: KeyPlace | None
    last: KeyPlace | None

    def meets(self, span: tuple[int, int]) -> bool:
        """Whether it can hold rows of the key groups `span` (first, last)."""
        if self.first is None or self.last is None:
            return True
        return self.first[0] <= span[1] and span[0] <= self.last[0]

    def can_hold(self, place: KeyPlace) -> bool:
        """Whether it can hold rows of a key with this place."""
        return self.first is None or self.last is None or self.first <= place <= self.last

    def lies_within(self, span: tuple[int, int]) -> bool:
        """Whether all of its rows belong to the key groups `span` (first, last)."""
        if self.first is None or self.last is None:
            return False
        return span[0] <= self.first[0] and self.last[0] <= span[1]

    def describe(self) -> str:
        """`key groups 3-5`, for errors."""
        if self.first is None or self.last is None:
            return "rows without a key"
        first, last = self.first[0], self.last[0]
        return f"key group {first}" if first == last else f"key groups {first}-{last}"


@dataclass(frozen=True, slots=True)
class RowGroups:
    """All row groups of a file, in order. max_parallelism: that of the key groups; None: the rows have no keys."""

    max_parallelism: int | None
    groups: tuple[RowGroup, ...]

    def runs(self, numbers: Sequence[int]) -> Iterator[list[int]]:
        """Returns these row groups (ascending), those of one chunk together."""
        run: list[int] = []
        for number in numbers:
            if run and self.groups[run[-1]].chunk != self.groups[number].chunk:
                yield run
                run = []
            run.append(number)
        if run:
            yield run


ROW_GROUPS = TypeAdapter(RowGroups)
"""The JSON in the footer. `validate_json` raises ValueError for any other text."""


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """The order of a keyed state's rows in its files: by key group, then by the upper bits of the key columns' hash."""

    keys: tuple[str, ...]
    max_parallelism: int

    def sort(self, frame: pl.DataFrame) -> SortedRows:
        """Returns the rows in this order. Raises UserError for a column that cannot be a key."""
        places = self.places(frame)
        if (places[1:] >= places[:-1]).all():
            return SortedRows(self, frame, places)
        order = sorted_order(places)
        return SortedRows(self, frame[pl.Series(order)], places[order])

    def places(self, frame: pl.DataFrame) -> Places:
        """The place of each row, as one number. Raises UserError for a column that cannot be a key."""
        hashes = key_hash(frame, self.keys)
        places = hashes % np.uint64(self.max_parallelism) << np.uint64(_HASH_BITS)
        places |= hashes >> np.uint64(64 - _HASH_BITS)
        return places


@dataclass(frozen=True, slots=True, eq=False)
class SortedRows:
    """Rows in an order, with the place of each: uint64[n], ascending."""

    order: KeyOrder
    frame: pl.DataFrame
    places: Places

    def place(self, row: int) -> KeyPlace:
        """The place of a row."""
        group, upper_hash = divmod(int(self.places[row]), 1 << _HASH_BITS)
        return group, upper_hash


def key_order(state: StateSnapshot, max_parallelism: int) -> KeyOrder | None:
    """The order of a state's rows in its files; None: as they are, because they have no key."""
    if state.kind is not StateKind.KEYED or not state.keys:
        return None
    return KeyOrder(state.keys, max_parallelism)


def cuts(rows: int) -> list[tuple[int, int]]:
    """(first row, number of rows) of each row group of a chunk: as few as possible, of about the same size."""
    count = -(-rows // ROW_GROUP_ROWS_MAX)
    bounds = [rows * number // count for number in range(count + 1)]
    return [(begin, end - begin) for begin, end in pairwise(bounds)]
