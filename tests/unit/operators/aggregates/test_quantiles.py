"""median and quantile_cont: exact against fractions, and beside DuckDB, which interpolates in float64."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import ExpressionError
from headrace.core.types import schema_of
from headrace.expr.compiler import compile_aggregates
from support.oracles.aggregates import quantile
from support.oracles.aggregates_of_duckdb import of_duckdb, of_headrace

SCHEMA = schema_of({"k": "string", "i": "int64", "n": "int32", "f": "float64", "h": "float32", "d": "decimal(10,2)"})
CALLS = (
    "median(i)",
    "quantile_cont(i, 0.1)",
    "quantile_cont(n, 1)",
    "median(n) filter (where f > 0)",
    "median(f)",
    "quantile_cont(f, 0.95)",
    "median(h)",
    "median(d)",
    "quantile_cont(d, 0.333)",
    "median(distinct n)",
    "quantile_cont(distinct f, 0.25)",
    "count(distinct f)",
    "count(*)",
)


def rows_of(draw: random.Random, count: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "k": [draw.choice(["a", "b", None]) for _ in range(count)],
            "i": [draw.choice([-5, 1, 2, 2**40, None]) for _ in range(count)],
            "n": [draw.choice([None, draw.randint(-9, 9)]) for _ in range(count)],
            "f": [draw.choice([0.0, -0.0, 1.5, -2.25, 1e300, math.inf, math.nan, None]) for _ in range(count)],
            "h": [draw.choice([0.5, 3.0, -7.25, None]) for _ in range(count)],
            "d": [draw.choice([Decimal(draw.randint(-999, 999)).scaleb(-2), None]) for _ in range(count)],
        },
        schema=SCHEMA.polars(),
    )


@given(st.integers(0, 2**32))
def test_results_are_those_of_duckdb_but_for_rounding(seed: int) -> None:
    draw = random.Random(seed)
    rows = rows_of(draw, draw.randint(1, 60))
    as_floats = rows.with_columns(pl.col("d").cast(pl.Float64), pl.col("h").cast(pl.Float64))
    found, expected = of_headrace(CALLS, SCHEMA, rows, seed), of_duckdb(CALLS, as_floats)
    assert found.keys() == expected.keys()
    for key, results in expected.items():
        for call, ours, theirs in zip(CALLS, found[key], results, strict=True):
            assert ours == (theirs if theirs is None else pytest.approx(theirs, rel=1e-12, abs=1e-12, nan_ok=True)), (
                call
            )


FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.1, 0.2, 5e-324, 1.7e308])


@given(st.lists(FLOATS, min_size=1, max_size=12), st.sampled_from(["0", "0.5", "0.9", "0.333333333", "1"]))
def test_floats_are_interpolated_exactly_and_rounded_once(values: list[float], share: str) -> None:
    assert of_values("float64", values, share) == quantile(values, Fraction(share))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9), st.sampled_from(["0.5", "0.25", "0.999"]))
def test_large_integers_are_interpolated_exactly_and_rounded_once(values: list[int], share: str) -> None:
    assert of_values("int64", values, share) == quantile(values, Fraction(share))


def of_values(dtype: str, values: Sequence[object], share: str) -> object:
    schema = schema_of({"k": "string", "x": dtype})
    rows = pl.DataFrame({"k": ["a"] * len(values), "x": values}, schema=schema.polars())
    ((result,),) = of_headrace([f"quantile_cont(x, {share})"], schema, rows, len(values)).values()
    return result


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("quantile_cont(i, 1.5)", "the second argument of quantile_cont is a number from 0 to 1"),
        ("quantile_cont(i, -0.5)", "is a number from 0 to 1"),
        ("quantile_cont(i, f)", "is a number from 0 to 1"),
        ("quantile_cont(i, true)", "is a number from 0 to 1"),
        ("quantile_cont(i, 0.1234567891)", "more than 9 digits after the point"),
        ("quantile_cont(i)", "quantile_cont takes two arguments"),
        ("median(k)", "median needs numbers, not string"),
        ("median(*)", r"`\*` stands only in count"),
    ],
)
def test_other_arguments_are_refused(call: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        compile_aggregates({"x": call}, SCHEMA, ["k"])
