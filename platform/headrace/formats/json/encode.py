"""Encodes rows as JSON objects, whole columns at a time: with the kernel, or with polars, which writes the same bytes.

polars encodes a batch if kernels are off, or if the kernel does not support a column's type or one of its dates. Values
without a form in JSON (times, decimals, bytes) become text columns first. polars' struct encoder writes the rest:
shortest floats, NULL for NaN and infinities, exact integers, escaped strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

import polars as pl
import pyarrow as pa

from headrace.core.types import Schema
from headrace.formats.text_columns import format_timestamps
from headrace.kernels.json_encode import JsonEncodeKernel, json_encode_kernel

TimestampStyle = Literal["rfc3339", "epoch_ms"]
_SECONDS = "%Y-%m-%dT%H:%M:%S"


class JsonEncoder:
    """Writes the columns of one schema, in its order."""

    def __init__(self, schema: Schema, *, timestamps: TimestampStyle = "rfc3339", kernels: bool = True) -> None:
        self._names = schema.names
        self._timestamps: TimestampStyle = timestamps
        self._kernel = None
        if kernels and _are_exportable(schema.names, schema.polars().values()):
            self._kernel = json_encode_kernel(schema.names, epoch_ms=timestamps == "epoch_ms")

    def encode(self, rows: pl.DataFrame) -> pa.Array:
        """See `Encoder`."""
        return _encode(rows, self._names, self._timestamps, self._kernel)

    def file_header(self) -> bytes:
        """Empty: JSON lines have no header."""
        return b""


def encode_json_object(
    rows: pl.DataFrame, columns: Sequence[str], *, timestamps: TimestampStyle = "rfc3339", kernels: bool = True
) -> pa.Array:
    """One compact JSON object (no blanks) per row, of `columns` in that order: Arrow large_string without NULLs."""
    kernel = _kernel(tuple(columns), timestamps) if kernels and _are_exportable(rows.columns, rows.dtypes) else None
    return _encode(rows, columns, timestamps, kernel)


@lru_cache(maxsize=64)
def _kernel(columns: tuple[str, ...], timestamps: TimestampStyle) -> JsonEncodeKernel | None:
    return json_encode_kernel(columns, epoch_ms=timestamps == "epoch_ms")


def _are_exportable(names: Iterable[str], dtypes: Iterable[pl.DataType]) -> bool:
    """Whether polars can export these columns: a NUL in the name of a column or nested field aborts the process."""
    return "\0" not in "".join(names) and all(map(_is_exportable, dtypes))


def _is_exportable(dtype: pl.DataType) -> bool:
    if isinstance(dtype, pl.List | pl.Array):
        return _is_exportable(_known(dtype.inner))
    if isinstance(dtype, pl.Struct):
        return _are_exportable([item.name for item in dtype.fields], [_known(item.dtype) for item in dtype.fields])
    return True


def _encode(
    rows: pl.DataFrame, columns: Sequence[str], timestamps: TimestampStyle, kernel: JsonEncodeKernel | None
) -> pa.Array:
    assert columns, "an object has at least one field"
    if kernel is not None and (messages := kernel.encode(rows)) is not None:
        return messages
    texts = {name: _as_json(rows[name], timestamps) for name in columns}
    return pl.DataFrame(texts).to_struct("message").struct.json_encode().to_arrow()


def _as_json(column: pl.Series, timestamps: TimestampStyle) -> pl.Series:
    dtype = column.dtype
    if isinstance(dtype, pl.Datetime):
        return _epoch_ms(column) if timestamps == "epoch_ms" else format_timestamps(column)
    if isinstance(dtype, pl.Binary):
        return column.bin.encode("base64")
    if isinstance(dtype, pl.Decimal):
        return column.cast(pl.String)
    if isinstance(dtype, pl.List | pl.Struct) and _needs_text(dtype):
        return column.to_frame().select(_nested(pl.col(column.name), dtype, timestamps).alias(column.name)).to_series()
    return column


def _epoch_ms(column: pl.Series) -> pl.Series:
    return column.cast(pl.Int64) // 1000


def _needs_text(dtype: pl.DataType) -> bool:
    """Whether the type contains values without a form in JSON."""
    if isinstance(dtype, pl.List):
        return _needs_text(_inner(dtype))
    if isinstance(dtype, pl.Struct):
        return any(_needs_text(_known(item.dtype)) for item in dtype.fields)
    return isinstance(dtype, pl.Datetime | pl.Binary | pl.Decimal)


def _nested(value: pl.Expr, dtype: pl.DataType, timestamps: TimestampStyle) -> pl.Expr:
    """As `_as_json`, for values inside lists and structs."""
    if not _needs_text(dtype):
        return value
    if isinstance(dtype, pl.List):
        return value.list.eval(_nested(pl.element(), _inner(dtype), timestamps))
    if isinstance(dtype, pl.Struct):
        fields = [
            _nested(value.struct.field(item.name), _known(item.dtype), timestamps).alias(item.name)
            for item in dtype.fields
        ]
        return pl.when(value.is_not_null()).then(pl.struct(fields))
    if isinstance(dtype, pl.Binary):
        return value.bin.encode("base64")
    if isinstance(dtype, pl.Decimal):
        return value.cast(pl.String)
    if timestamps == "epoch_ms":
        return value.cast(pl.Int64) // 1000
    whole = value.cast(pl.Int64) % 1000 == 0
    return pl.when(whole).then(value.dt.strftime(f"{_SECONDS}%.3fZ")).otherwise(value.dt.strftime(f"{_SECONDS}%.6fZ"))


def _inner(dtype: pl.List) -> pl.DataType:
    return _known(dtype.inner)


def _known(dtype: object) -> pl.DataType:
    assert isinstance(dtype, pl.DataType), "types of a frame are instances"
    return dtype
