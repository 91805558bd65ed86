"""Which times can be written: the library's calendar ends long before 64 bits do, and it panics there; others end
earlier."""

from __future__ import annotations

import polars as pl

from headrace.connect.row_check import RowCheck, ValueCheck, columns_holding
from headrace.core.types import DataType, Primitive, Schema, Timestamp

TEXT_DAYS = (-96_465_292, 95_026_237)
"""-262143-01-01 and the day after 262142-12-31, in days since the epoch: between them times have a text."""
_NO_TEXT = "holds a time that cannot be written (years are between -262143 and 262142)"
_DAY_US = 86_400 * 1_000_000


def times_check(
    schema: Schema, node: str, *, days: tuple[int, int] = TEXT_DAYS, why: str = _NO_TEXT
) -> RowCheck | None:
    """Refuses times that do not lie in [first day, end day); None: the columns hold none at all."""
    columns = columns_holding(schema, _is_time)
    if not columns:
        return None
    return ValueCheck(
        node,
        columns,
        lambda values: _is_outside(values, *days),
        why,
        "filter or correct such rows before the sink; was it made of a number in another unit?",
    )


def _is_time(dtype: DataType) -> bool:
    return isinstance(dtype, Timestamp) or dtype is Primitive.DATE


def _is_outside(values: pl.Series, first: int, end: int) -> bool:
    """Whether a plain value lies outside; of other types none does."""
    if isinstance(values.dtype, pl.Datetime):
        first, end = first * _DAY_US, end * _DAY_US
    elif values.dtype != pl.Date:
        return False
    numbers = values.to_physical()
    least, most = numbers.min(), numbers.max()
    return isinstance(least, int) and isinstance(most, int) and (least < first or most >= end)
