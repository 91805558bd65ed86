"""The years 1 to 9999, in which every timestamp and date of a row lies.

Python's `datetime` knows no other years, nor do most databases, and polars panics far beyond them. So a time outside of
them is refused where it comes into being: by the ingest of a source, by an expression (`expr.terms.timestamps`), and in
the result of a user's function.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, TypeAlias

import polars as pl
from polars.datatypes import DataTypeClass

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

DAY_US = 86_400_000_000
YEAR_1_DAY, YEAR_9999_DAY = -719_162, 2_932_896
"""First and last day, in days since 1970."""
MIN_US, MAX_US = YEAR_1_DAY * DAY_US, (YEAR_9999_DAY + 1) * DAY_US - 1
"""First and last microsecond, since 1970."""
MIN_MS, MAX_MS = MIN_US // 1_000, MAX_US // 1_000
OUTSIDE = "is a time outside of the years 1 to 9999"

Mask: TypeAlias = "npt.NDArray[np.bool_]"


def outside_years(column: pl.Series) -> Mask | None:
    """The rows of a column that hold a time outside of the years 1 to 9999, also inside of lists and structs; None if
    there are none. Columns without times cost nothing."""
    match column.dtype:
        case pl.Date():
            return _outside(column.cast(pl.Int32), YEAR_1_DAY, YEAR_9999_DAY)
        case pl.Datetime(time_unit="us"):
            # a cast: `to_physical` and `dt` run a query each, which take ten times as long as the rest
            return _outside(column.cast(pl.Int64), MIN_US, MAX_US)
        case pl.Datetime(time_unit="ms"):
            return _outside(column.cast(pl.Int64), MIN_MS, MAX_MS)
        case pl.Datetime():  # nanoseconds reach from 1677 to 2262
            return None
        case pl.List() if _has_times(column.dtype):
            return _in_lists(column)
        case pl.Struct() if _has_times(column.dtype):
            found = [outside_years(column.struct.field(name)) for name in column.struct.fields]
            masks = [mask for mask in found if mask is not None]
            return reduce(or_, masks) if masks else None
        case _:
            return None


def _has_times(dtype: pl.DataType | DataTypeClass) -> bool:
    match dtype:
        case pl.Date() | pl.Datetime():
            return True
        case pl.List():
            return _has_times(dtype.inner)
        case pl.Struct():
            return any(_has_times(field.dtype) for field in dtype.fields)
        case _:
            return False


def _outside(physical: pl.Series, least: int, greatest: int) -> Mask | None:
    low, high = physical.min(), physical.max()
    if not isinstance(low, int) or not isinstance(high, int) or (least <= low and high <= greatest):
        return None
    return (~physical.is_between(least, greatest)).fill_null(value=False).to_numpy()


def _in_lists(column: pl.Series) -> Mask | None:
    lengths = column.list.len().fill_null(0)
    # an empty list would be a NULL in the exploded column, or nothing
    inner = outside_years(column.filter(lengths > 0).explode())
    if inner is None:
        return None
    import numpy as np  # here: commands that only plan do not load it

    mask = np.zeros(len(column), dtype=bool)
    mask[np.repeat(np.arange(len(column)), lengths.to_numpy())[inner]] = True
    return mask
