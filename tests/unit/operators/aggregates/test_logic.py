"""bool_and and bool_or against DuckDB."""

from __future__ import annotations

import random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import ExpressionError
from headrace.core.types import schema_of
from headrace.expr.compiler import compile_aggregates
from headrace.kernels.library import is_loaded
from headrace.operators.aggregates.layout import Layout
from support.oracles.aggregates_of_duckdb import of_duckdb, of_headrace

SCHEMA = schema_of({"k": "string", "ok": "bool", "x": "int64"})
CALLS = (
    "bool_and(ok)",
    "bool_or(ok)",
    "bool_and(x > 3)",
    "bool_or(x > 3) filter (where ok)",
    "bool_and(distinct ok)",
    "count(*)",
    "sum(x)",
)


@given(st.integers(0, 2**32))
def test_results_are_those_of_duckdb(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randint(1, 60)
    rows = pl.DataFrame(
        {
            "k": [draw.choice(["a", "b", "c", None]) for _ in range(count)],
            "ok": [draw.choice([True, False, None]) for _ in range(count)],
            "x": [draw.choice([1, 3, 4, None]) for _ in range(count)],
        },
        schema=SCHEMA.polars(),
    )
    assert of_headrace(CALLS, SCHEMA, rows, seed) == of_duckdb(CALLS, rows)


@pytest.mark.skipif(not is_loaded(), reason="kernels are switched off")
def test_the_kernel_computes_them() -> None:
    aggregates = compile_aggregates({"every": "bool_and(ok)", "n": "count(*)"}, SCHEMA, ["k"])
    rows = pl.DataFrame(
        {"k": ["a"], "ok": [True], "x": [1], "__ts": [0]}, schema=SCHEMA.polars() | {"__ts": pl.Int64()}
    )
    assert Layout(aggregates, [SCHEMA.field("k")]).compiled(rows) is not None


def test_an_argument_that_is_no_bool_is_refused() -> None:
    with pytest.raises(ExpressionError, match="bool_and needs a bool, not int64") as refused:
        compile_aggregates({"all": "1 + bool_and(x)"}, SCHEMA, ["k"])
    assert refused.value.offset == 4
    assert refused.value.remedy == "compare: bool_and(x > 0)"
