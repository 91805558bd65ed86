"""Times outside of the years 1 to 9999 are found wherever they are in a column."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.time_range import MAX_US, MIN_US, YEAR_1_DAY, YEAR_9999_DAY, outside_years

STAMP = pl.Datetime("us", "UTC")
EDGES = st.sampled_from([MIN_US - 1, MIN_US, 0, MAX_US, MAX_US + 1, -(1 << 63), (1 << 63) - 1])
moments = st.one_of(st.none(), EDGES, st.integers(-(1 << 63), (1 << 63) - 1))


def is_outside(value: Any) -> bool:
    """The definition, value by value."""
    match value:
        case None:
            return False
        case int():
            return not MIN_US <= value <= MAX_US
        case list():
            return any(map(is_outside, value))
        case dict():
            return any(map(is_outside, value.values()))
        case _:
            raise AssertionError(value)


@pytest.mark.parametrize(
    ("dtype", "numbers", "values"),
    [
        (STAMP, pl.Int64, moments),
        (pl.List(STAMP), pl.List(pl.Int64), st.one_of(st.none(), st.lists(moments, max_size=3))),
        (
            pl.Struct({"a": STAMP, "b": pl.List(STAMP)}),
            pl.Struct({"a": pl.Int64, "b": pl.List(pl.Int64)}),
            st.fixed_dictionaries({"a": moments, "b": st.one_of(st.none(), st.lists(moments, max_size=2))}),
        ),
    ],
    ids=["plain", "list", "struct"],
)
@given(data=st.data())
def test_it_is_the_definition(dtype: pl.DataType, numbers: pl.DataType, values: Any, data: st.DataObject) -> None:
    rows = data.draw(st.lists(values, max_size=6))
    mask = outside_years(pl.Series("t", rows, dtype=numbers).cast(dtype))
    assert (
        [False] * len(rows) == list(map(is_outside, rows))
        if mask is None
        else mask.tolist() == [is_outside(row) for row in rows]
    )


def test_dates_and_columns_without_times() -> None:
    days = pl.Series([YEAR_1_DAY - 1, YEAR_1_DAY, None, YEAR_9999_DAY, YEAR_9999_DAY + 1], dtype=pl.Int32)
    mask = outside_years(days.cast(pl.Date))
    assert mask is not None
    assert mask.tolist() == [True, False, False, False, True]
    millis = pl.Series([MAX_US // 1000, MAX_US // 1000 + 1, 1 << 61]).cast(pl.Datetime("ms"))
    assert (mask := outside_years(millis)) is not None
    assert mask.tolist() == [False, True, True]
    assert outside_years(pl.Series([(1 << 63) - 1]).cast(pl.Datetime("ns"))) is None
    assert outside_years(pl.Series([1 << 62])) is None
    assert outside_years(pl.Series([None, None], dtype=STAMP)) is None
    assert outside_years(pl.Series([], dtype=STAMP)) is None
