"""The first rows of a source: which columns have no value, and which times are in 1970."""

from __future__ import annotations

import numpy as np
import polars as pl

from headrace.rpc.figures import FIRST_ROWS_MAX, REMARKS_MAX, FirstRows
from headrace.worker.task.ingest import FirstRowsCount


def rows(count: int, *, empty: tuple[str, ...] = ()) -> pl.DataFrame:
    value = pl.Series([1] * count, dtype=pl.Int64)
    null = pl.Series([None] * count, dtype=pl.Int64)
    return pl.DataFrame({name: null if name in empty else value for name in ("a", "b", "c")})


def test_a_column_counts_as_empty_until_its_first_value() -> None:
    count = FirstRowsCount(["a", "b", "c"])
    count.add(rows(10, empty=("b", "c")), None)
    assert count.figures == FirstRows(rows=10, all_null=("b", "c"))
    count.add(pl.DataFrame({"a": [None, None], "b": [None, 2], "c": [None, None]}), None)
    assert count.figures == FirstRows(rows=12, all_null=("c",))
    count.add(rows(1, empty=("a", "b", "c")), None)
    assert count.figures.all_null == ("c",)


def test_remarks_are_kept_once_and_bounded() -> None:
    count = FirstRowsCount(["a"])
    count.remark(("x", "y", "x"))
    count.add(rows(1), None)
    count.remark(tuple(str(number) for number in range(REMARKS_MAX)))
    assert count.figures.rows == 1
    assert count.figures.remarks == ("x", "y", *map(str, range(REMARKS_MAX - 2)))


def test_times_in_1970_are_counted_and_others_are_not() -> None:
    count = FirstRowsCount(["a"])
    count.add(rows(4), np.array([-1, 0, 31_535_999_999, 31_536_000_000]))
    count.add(rows(1), np.array([1_700_000_000_000]))
    assert (count.figures.in_1970, count.figures.greatest_1970) == (2, 31_535_999_999)


def test_rows_after_the_first_ones_are_not_looked_at() -> None:
    count = FirstRowsCount(["a", "b", "c"])
    count.add(rows(FIRST_ROWS_MAX, empty=("b",)), None)
    before = count.figures
    count.add(rows(5), np.zeros(5, dtype=np.int64))
    assert count.figures is before and before.all_null == ("b",)
