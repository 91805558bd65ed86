"""Batches: visible and hidden columns, and joining batches of one edge."""

from __future__ import annotations

import polars as pl
import pytest

from headrace.core.batch import OP, TS, WM, concat_batches, hidden_columns, visible_columns
from headrace.core.signals import TIME_MIN

PLAIN = pl.DataFrame({"a": ["x", "y"], TS: [1, 2]})


def test_columns_are_told_apart_by_their_names() -> None:
    assert visible_columns(PLAIN) == ["a"]
    assert hidden_columns(PLAIN) == [TS]


def test_one_batch_is_itself_and_equal_columns_are_stacked() -> None:
    assert concat_batches([PLAIN]) is PLAIN
    assert concat_batches([PLAIN, PLAIN]).rows() == [("x", 1), ("y", 2)] * 2


def test_left_out_columns_are_filled_with_what_leaving_them_out_means() -> None:
    late = PLAIN.with_columns(pl.lit(7, dtype=pl.Int64).alias(WM))
    deletes = pl.DataFrame({OP: [True], TS: [3], "a": ["z"]})
    joined = concat_batches([PLAIN, late, deletes])
    assert joined.columns == ["a", TS, WM, OP]
    assert joined.rows() == [
        ("x", 1, TIME_MIN, False),
        ("y", 2, TIME_MIN, False),
        ("x", 1, 7, False),
        ("y", 2, 7, False),
        ("z", 3, TIME_MIN, True),
    ]
    assert joined.schema[WM] == pl.Int64
    assert joined.schema[OP] == pl.Boolean


def test_batches_of_different_edges_are_not_joined() -> None:
    with pytest.raises(AssertionError, match="differ in columns"):
        concat_batches([PLAIN, PLAIN.rename({"a": "b"})])
