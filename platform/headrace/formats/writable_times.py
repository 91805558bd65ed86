"""Checks that times can be written as text. polars' calendar ends long before int64, and polars panics beyond it; other
calendars end earlier."""

from __future__ import annotations

import polars as pl

from headrace.connect.row_check import RowCheck, ValueCheck, columns_holding
from headrace.core.time_range import DAY_US
from headrace.core.types import DataType, Primitive, Schema, Timestamp

TEXT_DAYS = (-96_465_292, 95_026_237)
"""-262143-01-01 and the day after 262142-12-31, in days since the epoch: times between them can be formatted."""
_NO_TEXT = "holds a time that cannot be written (years are between -262143 and 262142)"


def times_check(schema: Schema, *, days: tuple[int, int] = TEXT_DAYS, why: str = _NO_TEXT) -> RowCheck | None:
    """Rejects times outside of [first day, end day); None if the columns hold no times."""
    columns = columns_holding(schema, is_time)
    if not columns:
        return None
    return ValueCheck(
        columns,
        lambda values: _is_outside(values, *days),
        why,
        "filter or correct such rows before the sink; was it made of a number in another unit?",
    )


def is_time(dtype: DataType) -> bool:
    """Whether values of this type are timestamps or dates."""
    return isinstance(dtype, Timestamp) or dtype is Primitive.DATE


def _is_outside(values: pl.Series, first: int, end: int) -> bool:
    """Whether any plain value lies outside; values of other types never do."""
    if isinstance(values.dtype, pl.Datetime):
        first, end = first * DAY_US, end * DAY_US
    elif values.dtype != pl.Date:
        return False
    numbers = values.to_physical()
    least, most = numbers.min(), numbers.max()
    return isinstance(least, int) and isinstance(most, int) and (least < first or most >= end)
