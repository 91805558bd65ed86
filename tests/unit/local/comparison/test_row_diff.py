from __future__ import annotations

from collections import Counter

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.text.row_text import json_row, row_text
from headrace.local.comparison.row_diff import diff_rows

SCHEMA = {"k": pl.String, "a": pl.Int64, "b": pl.Float64}


def frame(*rows: tuple[object, ...]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=SCHEMA, orient="row")


def test_order_does_not_matter_but_how_often_does() -> None:
    one, two = ("x", 1, 1.0), ("y", 2, 2.0)

    assert not diff_rows(frame(one, two), frame(two, one)).differs
    found = diff_rows(frame(one), frame(one, one))
    assert (len(found.missing), len(found.extra)) == (0, 1)


def test_zero_has_a_sign_where_it_is_asked_for() -> None:
    found = diff_rows(frame(("x", 1, -0.0)), frame(("x", 1, 0.0)), exact=True)
    assert [pair.columns for pair in found.changed] == [("b",)]
    assert not diff_rows(frame(("x", 1, float("nan"))), frame(("x", 1, float("nan"))), exact=True).differs


def test_nan_equals_nan_and_zero_has_no_sign() -> None:
    assert not diff_rows(
        frame(("x", 1, float("nan")), ("x", 1, -0.0)), frame(("x", 1, float("nan")), ("x", 1, 0.0))
    ).differs


def test_close_rows_are_paired_with_the_columns_that_differ() -> None:
    found = diff_rows(frame(("x", 1, 1.0), ("z", 9, 9.0)), frame(("x", 1, 2.0), ("q", 5, 5.0)))

    (pair,) = found.changed
    assert pair.columns == ("b",)
    assert [row["k"] for row in found.missing] == ["z"]
    assert [row["k"] for row in found.extra] == ["q"]


def test_with_a_key_rows_of_one_key_are_paired_whatever_else_differs() -> None:
    found = diff_rows(frame(("x", 1, 1.0)), frame(("x", 2, 2.0)), key=("k",))
    other = diff_rows(frame(("x", 1, 1.0)), frame(("y", 1, 1.0)), key=("k",))

    assert found.changed[0].columns == ("a", "b")
    assert not other.changed


_rows = st.lists(st.tuples(st.sampled_from("xy"), st.integers(0, 2), st.sampled_from([0.0, 1.0])), max_size=8)


@given(_rows, _rows)
def test_differs_exactly_where_the_multisets_do(
    expected: list[tuple[str, int, float]], actual: list[tuple[str, int, float]]
) -> None:
    found = diff_rows(frame(*expected), frame(*actual))
    missing, surplus = Counter(expected) - Counter(actual), Counter(actual) - Counter(expected)

    assert found.differs == (Counter(expected) != Counter(actual))
    assert len(found.missing) + len(found.changed) == missing.total()
    assert len(found.extra) + len(found.changed) == surplus.total()


def test_rows_as_text_and_json() -> None:
    row = pl.DataFrame(
        {
            "at": ["2024-01-01T00:00:00.5Z"],
            "raw": [b"\x00"],
            "tags": [["a", None]],
            "inner": [{"x": float("inf"), "flag": True}],
            "note": ["a: b"],
            "none": [None],
        }
    ).with_columns(pl.col("at").str.to_datetime(time_zone="UTC"), price=pl.lit("1.50").cast(pl.Decimal(10, 2)))
    (values,) = row.to_dicts()

    assert json_row(values) == {
        "at": "2024-01-01T00:00:00.500Z",
        "raw": "AA==",
        "tags": ["a", None],
        "inner": {"x": "inf", "flag": True},
        "note": "a: b",
        "none": None,
        "price": "1.50",
    }
    assert row_text(values) == (
        "{at: 2024-01-01T00:00:00.500Z, raw: AA==, tags: [a, null], inner: {x: inf, flag: true}, "
        "note: 'a: b', none: null, price: 1.50}"
    )
