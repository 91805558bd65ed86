"""A row's result is the same alone and among others: a function of the row, not of its batch."""

from __future__ import annotations

import random

import polars as pl
import pytest

from headrace.core.types import schema_of
from headrace.expr.compiler import compile_scalar

SCHEMA = schema_of({"v": "float64", "w": "float64", "f": "float32", "n": "int64", "m": "int64", "d": "decimal(10,2)"})
ROWS = 200


def rows() -> pl.DataFrame:
    seeded = random.Random(7)
    frame = pl.DataFrame(
        {
            "v": [seeded.uniform(0.1, 1000) for _ in range(ROWS)],
            "w": [seeded.choice([2.0, 3.0, 0.5, 1.7, -1.0, 4.0, None]) for _ in range(ROWS)],
            "f": [seeded.uniform(0.1, 1000) for _ in range(ROWS)],
            "n": [seeded.randint(1, 1000) for _ in range(ROWS)],
            "m": [seeded.choice([1, 2, 3, 4, 7]) for _ in range(ROWS)],
        },
        schema_overrides={"f": pl.Float32},
    )
    return frame.with_columns(d=pl.col("v").cast(pl.Decimal(10, 2)))


@pytest.mark.parametrize(
    "text",
    [
        *("v / 3", "f / 3", "v / (1 + 2)", "n / 1000", "d / 3", "v / w", "3 / v", "1 / 3", "n / m"),
        *("power(v, w)", "power(v, 3)", "power(1.1, m)", "v ^ w", "power(n, m)", "pow(v, 0.5)"),
        *("epoch(epoch_ms(n))", "round(v, -1)", "v % 3", "ln(v)", "v / cast(null as double)"),
    ],
)  # fmt: skip
def test_alone_as_among_others(text: str) -> None:
    compiled, frame = compile_scalar(text, SCHEMA), rows()
    among = frame.select(compiled.value.alias("x"))["x"].to_list()
    alone = [frame[i : i + 1].select(compiled.value.alias("x"))["x"][0] for i in range(ROWS)]
    assert alone == among


def test_division_rounds_once() -> None:
    frame = rows()
    found = frame.select(compile_scalar("v / 3", SCHEMA).value.alias("x"))["x"].to_list()
    assert found == [value / 3 for value in frame["v"]]


def test_a_column_that_a_literal_filled_is_a_column() -> None:
    frame = rows().with_columns(w=pl.when(pl.int_range(pl.len()) >= 0).then(pl.lit(3.0)))
    found = frame.select(compile_scalar("v / w", SCHEMA).value.alias("x"))["x"].to_list()
    assert found == [value / 3 for value in frame["v"]]
    assert frame.head(0).select(compile_scalar("v / w + v ^ w", SCHEMA).value.alias("x")).height == 0
