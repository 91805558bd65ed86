"""Rows of two frames, compared against counting them one by one."""

from __future__ import annotations

import math
import struct
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.batch import OP
from headrace.core.last_rows import last_rows
from headrace.local.comparison.row_diff import diff_rows
from headrace.local.comparison.row_equality import compare_rows

SCHEMA: dict[str, pl.DataType] = {
    "n": pl.Int64(),
    "x": pl.Float64(),
    "xs": pl.List(pl.Float32()),
    "s": pl.Struct({"a": pl.Float64(), "b": pl.String(), "c": pl.List(pl.Struct({"d": pl.Float64()}))}),
    "t": pl.Datetime("us", "UTC"),
    "p": pl.Decimal(10, 2),
    "b": pl.Binary(),
}
FLOATS = st.sampled_from([0.0, -0.0, math.nan, 1.5, math.inf, None])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "n": st.sampled_from([None, 0, 1]),
            "x": FLOATS,
            "xs": st.none() | st.lists(FLOATS, max_size=2),
            "s": st.none()
            | st.fixed_dictionaries(
                {
                    "a": FLOATS,
                    "b": st.sampled_from([None, "", "é"]),
                    "c": st.none() | st.lists(st.fixed_dictionaries({"d": FLOATS}), max_size=1),
                }
            ),
            "t": st.sampled_from([None, datetime(2024, 1, 1, tzinfo=UTC)]),
            "p": st.sampled_from([None, Decimal("1.50")]),
            "b": st.sampled_from([None, b"", b"\xff"]),
        }
    ),
    max_size=6,
)


def frame(rows: list[dict[str, object]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA)


def identity(value: object, *, exact: bool = True) -> object:
    match value:
        case float():
            return "nan" if math.isnan(value) else struct.pack("<d", value if exact else value + 0.0)
        case list():
            return tuple(identity(item, exact=exact) for item in value)
        case dict():
            return tuple(identity(item, exact=exact) for item in value.values())
        case _:
            return value


@given(ROWS, ROWS, st.booleans())
def test_as_counted_one_by_one(left: list[dict[str, object]], right: list[dict[str, object]], shared: bool) -> None:
    right = right + left if shared else right
    expected, actual = frame(left), frame(right)
    wanted = Counter(map(identity, expected.to_dicts()))
    found = Counter(map(identity, actual.to_dicts()))
    compared = compare_rows(expected, actual)
    assert compared.missing == (wanted - found).total()
    assert compared.extra == (found - wanted).total()
    assert compared.equal == (wanted & found).total()
    assert compared.same == (wanted == found)
    assert set(map(identity, compared.missing_examples.to_dicts())) == set(wanted - found)
    assert set(map(identity, compared.extra_examples.to_dicts())) == set(found - wanted)


@given(ROWS, ROWS, st.booleans())
def test_row_by_row_as_counted_one_by_one(
    left: list[dict[str, object]], right: list[dict[str, object]], exact: bool
) -> None:
    expected, actual = frame(left), frame(right)
    wanted, found = (Counter(identity(row, exact=exact) for row in each.to_dicts()) for each in (expected, actual))
    diff = diff_rows(expected, actual, exact=exact)
    missing = [*diff.missing, *(pair.expected for pair in diff.changed)]
    extra = [*diff.extra, *(pair.actual for pair in diff.changed)]
    assert Counter(identity(row, exact=exact) for row in missing) == wanted - found
    assert Counter(identity(row, exact=exact) for row in extra) == found - wanted
    for pair in diff.changed:
        differ = [n for n in SCHEMA if identity(pair.expected[n], exact=exact) != identity(pair.actual[n], exact=exact)]
        assert pair.columns == tuple(differ)


@pytest.mark.parametrize(("one", "other"), [(0.0, -0.0), (math.nan, None), (math.nan, 0.0), (None, 0.0)])
def test_what_is_close_is_not_equal(one: float | None, other: float | None) -> None:
    schema = {"x": pl.Float64}
    assert not compare_rows(pl.DataFrame({"x": [one]}, schema), pl.DataFrame({"x": [other]}, schema)).same
    assert compare_rows(pl.DataFrame({"x": [one]}, schema), pl.DataFrame({"x": [one]}, schema)).same


def test_columns_of_another_type_hold_no_equal_rows() -> None:
    compared = compare_rows(pl.DataFrame({"a": [1], "b": [1]}), pl.DataFrame({"a": [1.0], "c": [1]}))
    assert not compared.same
    assert compared.types == ("a: Int64 and Float64", "b: Int64 and no such column", "c: no such column and Int64")


def test_the_order_of_columns_and_rows_does_not_matter() -> None:
    one, other = pl.DataFrame({"a": [1, 2], "b": ["x", "y"]}), pl.DataFrame({"b": ["y", "x"], "a": [2, 1]})
    assert compare_rows(one, other).same


def test_few_examples_of_many_differences() -> None:
    compared = compare_rows(pl.DataFrame({"a": range(100)}), pl.DataFrame({"a": range(50, 200)}), examples=3)
    assert (compared.equal, compared.missing, compared.extra) == (50, 50, 100)
    assert compared.missing_examples["a"].to_list() == [0, 1, 2]
    assert compared.extra_examples["a"].to_list() == [100, 101, 102]


def test_last_rows_stand_and_deleted_ones_do_not() -> None:
    rows = pl.DataFrame({"k": ["a", "b", "a", "b", "c"], "v": [1, 2, 3, 4, 5], OP: [False, False, False, True, False]})
    assert last_rows(rows, ["k"]).rows() == [("a", 3), ("c", 5)]
    assert last_rows(rows, []).rows() == [("c", 5)]
