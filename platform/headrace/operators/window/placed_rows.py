"""Rows of a pane of state, with the columns that say which pane it is. A pane's own table has rows without them."""

from __future__ import annotations

import polars as pl

from headrace.state.row_groups import SortedRows
from headrace.state.snapshot import Chunk

PANE, SINCE = "__pane", "__since"
_SHORT = 1 << 14

PaneKey = tuple[int, int]
"""A pane of state: (start of the pane of time, end of the first window that its rows are on time for: `since`)."""


class PlacedChunk(Chunk):
    """A chunk of a pane's table, with the columns of the pane, which are made when the rows are read."""

    __slots__ = ("_chunk", "_pane")
    _chunk: Chunk
    _pane: PaneKey

    def __init__(self, chunk: Chunk, pane: PaneKey) -> None:
        object.__setattr__(self, "_chunk", chunk)
        object.__setattr__(self, "_pane", pane)
        object.__setattr__(self, "id", chunk.id)
        object.__setattr__(self, "origin", chunk.origin)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self._chunk.rows

    @property
    def frame(self) -> pl.DataFrame:
        """Its rows, with the columns of the pane."""
        return placed(self._chunk.frame, self._pane)

    @property
    def sorted(self) -> SortedRows | None:
        """The same in order."""
        rows = self._chunk.sorted
        return None if rows is None else SortedRows(rows.order, placed(rows.frame, self._pane), rows.places)


def placed(frame: pl.DataFrame, pane: PaneKey) -> pl.DataFrame:
    """A frame with the columns of its pane. Literal expressions use no memory but cost 0.1 ms per call, so frames of up
    to `_SHORT` rows get real columns, which are created faster."""
    if frame.height > _SHORT:
        return frame.with_columns([pl.lit(pane[0], pl.Int64).alias(PANE), pl.lit(pane[1], pl.Int64).alias(SINCE)])
    columns = [pl.Series(name, [at], dtype=pl.Int64) for name, at in zip((PANE, SINCE), pane, strict=True)]
    return frame.hstack([column.new_from_index(0, frame.height) for column in columns])
