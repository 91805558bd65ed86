"""Decodes JSON messages: the columnar reading where it vouches for a row, the reading one by one for all others."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.connect.format import Decoded
from headrace.core.types import Schema
from headrace.formats.json.columnar import ColumnReader
from headrace.formats.json.rows import BadValue, RowReader
from headrace.formats.json.screen import Screen, parses
from headrace.formats.json.sift import begin_objects, sift
from headrace.formats.messages import Indices, assemble, join_lines, live_messages, take
from headrace.formats.text_columns import Mask

SMALL_ROWS_MAX = 96
"""The default: at about so many messages the fixed cost of the columnar reader is earned back."""
_SLICES = 8
_SLICE_ROWS_MIN = 256
_NOWHERE = -1
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
        self._deceived = False

    def decode(self, values: pa.Array) -> Decoded:
        """See `Decoder`."""
        live, index = live_messages(values)
        result = _Result(self._schema)
        if len(live) <= self._small_rows_max or not self._columnar:
            self._read_rows(live, np.arange(len(live)), result)
        else:
            self._columns.look(live)
            places = np.arange(len(live))
            if self._dirty or not self._read_columns(live, places, result):
                self._read_mixed(live, places, result)
            self._dirty = len(result.bad) > len(live) * _DIRTY_SHARE
            self._deceived = self._deceived and self._dirty
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

    def _read_columns(self, values: pa.Array, index: Indices, result: _Result, *, tolerant: bool = False) -> bool:
        """Reads messages, whose places in the batch are `index`, as columns; False where that failed.

        It fails, and then nothing is read, if one of them is bad; if `tolerant`, only if one is no JSON.
        """
        joined = join_lines(values)
        if joined is None or not _one_line_each(values, joined):
            return False
        read = self._columns.read_tolerantly(joined, values) if tolerant else self._columns.read(joined, values)
        if read is None:
            return False
        frame, doubtful = read
        if doubtful.any():
            unsure = np.flatnonzero(doubtful)
            self._read_rows(take(values, unsure), index[unsure], result)
            index = np.where(doubtful, _NOWHERE, index)
        result.add(frame, index)
        return True

    def _read_mixed(self, live: pa.Array, index: Indices, result: _Result) -> None:
        """A batch that holds bad messages: where they are few, finds the slices that hold them first."""
        if self._dirty:
            self._read_dirty(live, index, result)
            return
        step = max(_SLICE_ROWS_MIN, -(-len(live) // _SLICES))
        for begin in range(0, len(live), step):
            part, part_index = live.slice(begin, step), index[begin : begin + step]
            if not self._read_columns(part, part_index, result):
                self._read_dirty(part, part_index, result)

    def _read_dirty(self, part: pa.Array, index: Indices, result: _Result) -> None:
        """Messages of which some are bad: sets the worst aside by their bytes and forgives the others their types."""
        if self._columns.tolerates:
            plausible = sift(part)
            if not self._deceived and self._read_plausible(part, index, plausible, result):
                return
            # some only look like objects: parsing each, without a look at types, finds them; the next batch, which
            # comes from the same place, is not trusted either
            self._deceived = True
            plausible[plausible] = parses(take(part, np.flatnonzero(plausible)))
            if self._read_plausible(part, index, plausible, result):
                return
        self._read_screened(part, index, result)

    def _read_plausible(self, part: pa.Array, index: Indices, plausible: Mask, result: _Result) -> bool:
        """Reads the plausible ones as columns and the others one by one; False where that failed, as before."""
        fine, others = np.flatnonzero(plausible), np.flatnonzero(~plausible)
        if not self._read_columns(take(part, fine), index[fine], result, tolerant=True):
            return False
        self._read_rows(take(part, others), index[others], result)
        return True

    def _read_screened(self, part: pa.Array, index: Indices, result: _Result) -> None:
        """The same where that failed: parses every message by itself to set the bad ones aside."""
        accepts = Screen(self._schema, self._columns.integer_times).accepts
        accepted = np.fromiter(map(accepts, part.to_pylist()), dtype=np.bool_, count=len(part))
        fine, others = np.flatnonzero(accepted), np.flatnonzero(~accepted)
        if len(fine) and not self._read_columns(take(part, fine), index[fine], result):
            others = np.arange(len(part))  # equal keys of different types: rare enough to read all one by one
        self._read_rows(take(part, others), index[others], result)


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
        """Rows, and their places in the batch; those that are `_NOWHERE` do not count."""
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
        if (index < 0).any() or (index[1:] < index[:-1]).any():
            order = np.argsort(index, kind="stable")
            order = order[np.searchsorted(index, 0, sorter=order) :]
            frame, index = frame[order], index[order]
        return frame, index if self.bad else None


def _one_line_each(values: pa.Array, joined: bytes) -> bool:
    """Whether the reader, if it finds as many rows in `joined` as there are messages, has found one in each.

    It skips blank lines, so a message of two rows could hide a blank one; but no message that begins an object is
    blank. Where some begin otherwise, newlines are counted.
    """
    if begin_objects(values):
        return True
    return int(np.count_nonzero(np.frombuffer(joined, dtype=np.uint8) == ord("\n"))) + 1 == len(values)
