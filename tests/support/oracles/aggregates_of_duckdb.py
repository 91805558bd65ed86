"""Aggregates by key, of a running aggregate in batches with a restore between, and of DuckDB in one query."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import duckdb
import polars as pl

from headrace.core.batch import O_INDEX, O_MAJOR, O_MINOR, O_NODE, O_TEXT, TS
from headrace.core.types import Schema
from headrace.operators.aggregate import AggregateConfig
from support.oracles.collector import Collected
from support.oracles.restoring import restored

Results = Mapping[object, tuple[object, ...]]
"""Key -> the result of each call."""


def of_headrace(calls: Sequence[str], schema: Schema, rows: pl.DataFrame, seed: int) -> Results:
    """The last row of each key `k`; the state is written and read again after some batch."""
    draw = random.Random(seed)
    named = tuple((f"a{number}", call) for number, call in enumerate(calls))
    config = AggregateConfig("step", ("k",), None, named, schema)
    operator, out = config.open(), Collected()
    placed = rows.with_columns(
        pl.int_range(pl.len()).alias(TS),
        pl.lit("rows").alias(O_NODE),
        pl.lit("").alias(O_TEXT),
        pl.lit(0, pl.Int64).alias(O_MAJOR),
        pl.int_range(pl.len()).alias(O_MINOR),
        pl.lit(0, pl.Int64).alias(O_INDEX),
    )
    begin, cut = 0, draw.randrange(rows.height)
    while begin < rows.height:
        end = begin + draw.choice([1, 3, 40])
        operator.on_batch(placed[begin:end], out)
        if begin <= cut < end:
            (operator,) = restored(config, [operator.snapshot()], 1)
        begin = end
    return {row["k"]: tuple(row[name] for name, _ in named) for row in out.rows}


def of_duckdb(calls: Sequence[str], rows: pl.DataFrame) -> Results:
    """The same by SQL."""
    with duckdb.connect() as connection:
        connection.execute("set threads = 1")
        connection.register("rows", rows.to_arrow())
        query = f"select k, {', '.join(calls)} from rows group by k"
        return {key: tuple(values) for key, *values in connection.execute(query).fetchall()}
