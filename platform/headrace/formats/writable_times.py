"""Which times can be written as text: the library's calendar ends long before 64 bits do, and it panics there."""

from __future__ import annotations

import polars as pl

from headrace.connect.row_check import RowCheck, ValueCheck, columns_holding
from headrace.core.types import DataType, Primitive, Schema, Timestamp

_DAY_MIN, _DAY_MAX = -96_465_292, 95_026_236
"""Days since the epoch of -262143-01-01 and 262142-12-31."""
_DAY_US = 86_400 * 1_000_000


def times_check(schema: Schema, node: str) -> RowCheck | None:
    """Refuses times that have no text; None: the columns hold none at all."""
    columns = columns_holding(schema, _is_time)
    if not columns:
        return None
    return ValueCheck(
        node,
        columns,
        _has_no_text,
        "holds a time that cannot be written (years are between -262143 and 262142)",
        "filter or correct such rows before the sink; was it made of a number in another unit?",
    )


def _is_time(dtype: DataType) -> bool:
    return isinstance(dtype, Timestamp) or dtype is Primitive.DATE


def _has_no_text(values: pl.Series) -> bool:
    if isinstance(values.dtype, pl.Datetime):
        low, high = _DAY_MIN * _DAY_US, (_DAY_MAX + 1) * _DAY_US - 1
    elif values.dtype == pl.Date:
        low, high = _DAY_MIN, _DAY_MAX
    else:
        return False
    numbers = values.to_physical()
    least, most = numbers.min(), numbers.max()
    return isinstance(least, int) and isinstance(most, int) and (least < low or most > high)
