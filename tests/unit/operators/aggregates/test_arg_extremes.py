"""arg_min and arg_max against DuckDB, and which of equal rows counts."""

from __future__ import annotations

import random
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import ExpressionError
from headrace.core.types import schema_of
from headrace.expr.compiler import compile_aggregates
from support.oracles.aggregates_of_duckdb import of_duckdb, of_headrace

SCHEMA = schema_of(
    {"k": "string", "s": "string", "i": "int64", "f": "float64", "d": "decimal(10,2)", "b": "bool", "l": "[int64]"}
)
CALLS = (
    "arg_min(s, f)",
    "arg_max(s, f)",
    "arg_max(i, d)",
    "min_by(l, s)",
    "max_by(b, i) filter (where f > 0)",
    "arg_max(s, b)",
    "count(*)",
)


def rows_of(draw: random.Random) -> pl.DataFrame:
    count = draw.randint(1, 60)
    return pl.DataFrame(
        {
            "k": [draw.choice(["a", "b", None]) for _ in range(count)],
            "s": [draw.choice(["x", "yy", "z", None]) for _ in range(count)],
            "i": [draw.choice([-1, 2, 2**40, None]) for _ in range(count)],
            "f": [draw.choice([0.0, -0.0, 1.5, -2.5, float("inf"), float("nan"), None]) for _ in range(count)],
            "d": [draw.choice([Decimal("1.25"), Decimal(-3), None]) for _ in range(count)],
            "b": [draw.choice([True, False, None]) for _ in range(count)],
            "l": [draw.choice([[1, 2], [], None]) for _ in range(count)],
        },
        schema=SCHEMA.polars(),
    )


@given(st.integers(0, 2**32))
def test_results_are_those_of_duckdb(seed: int) -> None:
    # DuckDB takes the first of equal rows that it reads, by one thread
    rows = rows_of(random.Random(seed))
    assert of_headrace(CALLS, SCHEMA, rows, seed) == of_duckdb(CALLS, rows)


@pytest.mark.parametrize("call", ["arg_min(i, l)", "arg_max(i, l)"])
def test_a_second_argument_without_an_order_is_refused(call: str) -> None:
    with pytest.raises(ExpressionError, match=r"arg_m.*: values of type \[int64\] have no order"):
        compile_aggregates({"x": call}, SCHEMA, ["k"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("arg_min(i)", "arg_min takes two arguments"),
        ("arg_max(distinct i, f)", "arg_max takes no distinct"),
        ("arg_min(*, f)", r"`\*` stands only in count"),
    ],
)
def test_other_arguments_are_refused(call: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        compile_aggregates({"x": call}, SCHEMA, ["k"])


def test_a_failing_second_argument_fails_the_row() -> None:
    (compiled,) = compile_aggregates({"x": "arg_min(s, i + 1)"}, SCHEMA, ["k"])
    (call,) = compiled.calls
    assert [argument.fails is not None for argument in call.arguments] == [False, True]
    assert call.function.order_sensitive
