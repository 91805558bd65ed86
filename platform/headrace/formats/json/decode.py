"""Decodes JSON messages: the columnar reading where it vouches for a row, the reading one by one for all others."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.connect.format import Decoded
from headrace.core.types import Schema
from headrace.formats.json.columnar import ColumnReader
from headrace.formats.json.rows import BadValue, RowReader
from headrace.formats.json.screen import Screen
from headrace.formats.messages import Indices, assemble, join_lines, live_messages, take

SMALL_ROWS_MAX = 96
"""The default: at about so many messages the fixed cost of the columnar reader is earned back."""
_SLICES = 8
_SLICE_ROWS_MIN = 256
_DIRTY_SHARE = 1 / 1000
"""From this share of bad messages on, the next batch is screened before the columnar reader tries it whole."""


class JsonDecoder:
    """Reads messages of one schema. The result is the same however messages are cut into batches.

    Batches of up to `small_rows_max` messages are read one by one.
    """

    def __init__(self, schema: Schema, *, small_rows_max: int = SMALL_ROWS_MAX) -> None:
        self._small_rows_max = small_rows_max
        self._schema = schema
        self._rows = RowReader(schema)
        self._columns = ColumnReader(schema)
        self._columnar = self._columns.possible
        self._dirty = False

    def decode(self, values: pa.Array) -> Decoded:
        """See `Decoder`."""
        live, index = live_messages(values)
        result = _Result(self._schema)
        if len(live) <= self._small_rows_max or not self._columnar:
            self._read_rows(live, np.arange(len(live)), result)
        else:
            self._columns.look(live)
            if self._dirty or not self._read_columns(live, 0, result):
                self._read_mixed(live, result)
            self._dirty = len(result.bad) > len(live) * _DIRTY_SHARE
        rows, good = result.rows(self._rows)
        return assemble(len(values), index, rows, good, result.bad)

    def _read_rows(self, values: pa.Array, index: Indices, result: _Result) -> None:
        """Reads messages one by one. `index`: their places in the batch."""
        for place, raw in zip(index.tolist(), values.to_pylist(), strict=True):
            try:
                result.rows_read.append(self._rows.read(raw))
                result.rows_index.append(place)
            except BadValue as bad:
                result.bad[place] = bad.reason

    def _read_columns(self, values: pa.Array, begin: int, result: _Result, index: Indices | None = None) -> bool:
        """Reads messages as columns; False where one of them is bad, and then nothing is read.

        Their places in the batch are `index`, or those from `begin` on.
        """
        joined = join_lines(values)
        if joined is None or _lines(joined) != len(values):
            return False
        read = self._columns.read(joined, values)
        if read is None:
            return False
        frame, doubtful = read
        if index is None:
            index = np.arange(begin, begin + len(values))
        if doubtful.any():
            unsure = np.flatnonzero(doubtful)
            self._read_rows(take(values, unsure), index[unsure], result)
            frame, index = frame.filter(pl.Series(~doubtful)), index[~doubtful]
        result.add(frame, index)
        return True

    def _read_mixed(self, live: pa.Array, result: _Result) -> None:
        """A batch that holds bad messages: finds the slices that hold them, and screens those."""
        if self._dirty:
            self._read_screened(live, 0, result)
            return
        step = max(_SLICE_ROWS_MIN, -(-len(live) // _SLICES))
        for begin in range(0, len(live), step):
            part = live.slice(begin, step)
            if not self._read_columns(part, begin, result):
                self._read_screened(part, begin, result)

    def _read_screened(self, part: pa.Array, begin: int, result: _Result) -> None:
        accepts = Screen(self._schema, self._columns.integer_times).accepts
        accepted = np.fromiter(map(accepts, part.to_pylist()), dtype=np.bool_, count=len(part))
        fine, others = np.flatnonzero(accepted), np.flatnonzero(~accepted)
        if len(fine) and not self._read_columns(take(part, fine), 0, result, begin + fine):
            others = np.arange(len(part))  # equal keys of different types: rare enough to read all one by one
        self._read_rows(take(part, others), begin + others, result)


class _Result:
    """Collects what was read of one batch, in any order."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._frames: list[pl.DataFrame] = []
        self._indices: list[Indices] = []
        self.rows_read: list[list[object]] = []
        self.rows_index: list[int] = []
        self.bad: dict[int, str] = {}

    def add(self, frame: pl.DataFrame, index: Indices) -> None:
        """Rows that were read as columns, and their places in the batch."""
        self._frames.append(frame)
        self._indices.append(index)

    def rows(self, reader: RowReader) -> tuple[pl.DataFrame, Indices | None]:
        """All rows in the order of their messages, and their places; None where none is missing."""
        if self.rows_read or not self._frames:
            self.add(reader.frame(self.rows_read), np.array(self.rows_index, dtype=np.int64))
        if len(self._frames) == 1:
            frame, index = self._frames[0], self._indices[0]
        else:
            frame, index = pl.concat(self._frames), np.concatenate(self._indices)
        if (index[1:] < index[:-1]).any():
            order = np.argsort(index, kind="stable")
            frame, index = frame[order], index[order]
        return frame, index if self.bad else None


def _lines(joined: bytes) -> int:
    """How many lines these are, counting empty ones."""
    return int(np.count_nonzero(np.frombuffer(joined, dtype=np.uint8) == 10)) + 1
