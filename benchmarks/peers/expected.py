"""The expected results of the jobs, computed by DuckDB from the input's columns: no contender uses DuckDB."""

from __future__ import annotations

from typing import assert_never

import duckdb
import polars as pl

from peers import events, wide_rows
from peers.jobs import WINDOW_MS, Job, Work

RESULTS: dict[Work, dict[str, pl.DataType]] = {
    Work.WINDOW: {"k": pl.Int64(), "w": pl.Int64(), "n": pl.Int64(), "s": pl.Float64()},
    Work.FILTER: events.SCHEMA,
    Work.WIDE: wide_rows.schema(),
}
"""Fields of the results, in polars' types of their JSON."""


def input_rows(job: Job) -> pl.DataFrame:
    """Returns all rows of the job's topic."""
    return wide_rows.frame(job.rows) if job.work is Work.WIDE else events.frame(job.rows, job.keys)


def expected(job: Job, rows: pl.DataFrame) -> pl.DataFrame:
    """Returns the results of the job over `rows`, in any order, with the fields of `RESULTS`."""
    with duckdb.connect() as database:
        database.register("rows", rows.to_arrow())
        results: pl.DataFrame = database.sql(_query(job)).pl()
    return results.cast(dict(RESULTS[job.work].items()))


def _query(job: Job) -> str:
    match job.work:
        case Work.WINDOW:
            window = f"ts - ts % {WINDOW_MS}"
            return f"SELECT k, {window} AS w, count(*) AS n, sum(v) AS s FROM rows GROUP BY k, {window}"
        case Work.FILTER:
            return "SELECT * FROM rows WHERE v > 0.5"
        case Work.WIDE:
            return f"SELECT * FROM rows WHERE quantity > {wide_rows.QUANTITY_LIMIT}"
        case _:
            assert_never(job.work)
