"""Frames made of Arrow buffers that kernels fill: the columns' types, and the frame once the buffers are written.

Arrow allocates the buffers: any thread may release them without the interpreter's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

_FIXED: tuple[tuple[pl.DataType, pa.DataType, int], ...] = (
    (pl.Int64(), pa.int64(), 8),
    (pl.Float64(), pa.float64(), 8),
    (pl.Int32(), pa.int32(), 4),
    (pl.Float32(), pa.float32(), 4),
    (pl.Date(), pa.date32(), 4),
    (pl.UInt64(), pa.uint64(), 8),
    (pl.UInt32(), pa.uint32(), 4),
    (pl.Int16(), pa.int16(), 2),
    (pl.UInt16(), pa.uint16(), 2),
    (pl.Int8(), pa.int8(), 1),
    (pl.UInt8(), pa.uint8(), 1),
    (pl.String(), pa.string_view(), 16),
    (pl.Binary(), pa.binary_view(), 16),
    # Arrow has no 128-bit integers
    (pl.Int128(), pa.decimal128(38, 0), 16),
)


@dataclass(frozen=True, slots=True)
class BufferColumn:
    """A column to write.

    width        the bytes of a value
    is_text      its values are 16-byte views, of which long ones refer to a third buffer
    is_whole128  Arrow has no 128-bit integers, so they are decimals with scale 0
    """

    name: str
    arrow: pa.DataType
    width: int
    is_text: bool = False
    is_whole128: bool = False


def buffer_column(name: str, dtype: pl.DataType) -> BufferColumn | None:
    """The column of this type; None for types that kernels do not write: bool, lists, structs, categories."""
    if isinstance(dtype, pl.Datetime):
        return BufferColumn(name, pa.timestamp(dtype.time_unit, dtype.time_zone), 8)
    if isinstance(dtype, pl.Decimal):
        return BufferColumn(name, pa.decimal128(dtype.precision, dtype.scale), 16)
    for known, arrow, width in _FIXED:
        if dtype == known:
            return BufferColumn(name, arrow, width, dtype in (pl.String, pl.Binary), dtype == pl.Int128)
    return None


def buffer_frame(
    rows: int, columns: Sequence[BufferColumn], buffers: Sequence[Sequence[pa.Buffer | None]]
) -> pl.DataFrame:
    """The frame of these columns: the buffers of each are validity (None: no row is NULL), values, and texts."""
    arrays = [
        pa.Array.from_buffers(column.arrow, rows, held)
        for column, held in zip(columns, map(list, buffers), strict=True)
    ]
    taken = list(zip(columns, arrays, strict=True))
    # What polars takes over together is freed together, and gathered rows go on referring to texts: so each column of
    # texts is taken over alone, or it would keep all other columns of rows that nobody has any more.
    together = [(column, array) for column, array in taken if not column.is_text] or taken[:1]
    frame = _taken(together)
    for place, (column, array) in enumerate(taken):
        if column.name not in frame.columns:
            frame.insert_column(place, _taken([(column, array)]).to_series())
    for place, column in enumerate(columns):
        if column.is_whole128:
            frame.replace_column(place, frame.to_series(place).to_physical())
    return frame


def _taken(columns: Sequence[tuple[BufferColumn, pa.Array]]) -> pl.DataFrame:
    names = [column.name for column, _ in columns]
    return pl.DataFrame(pa.RecordBatch.from_arrays([array for _, array in columns], names=names))
