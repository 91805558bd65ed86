"""A savepoint out of DataFrames: a job that goes on from it ends as one that has read all of its input itself."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from headrace.checkpoint.inspection.stored_state import chosen_state
from headrace.checkpoint.savepoints.bootstrap import given_states, share_numbers
from headrace.checkpoint.savepoints.savepoint import damage, find
from headrace.coordinator.job.job_state import JobState
from headrace.core.errors import UserError
from headrace.core.settings import Home
from headrace.execution.origin import OriginWish, find_origin
from headrace.execution.planning import JobPlans
from headrace.local.runs.slot_run import RunOptions, SlotRun
from headrace.rpc.time_settings import times_from
from headrace.spark.savepoints.bootstrapping import bootstrap, bootstrap_columns
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.read import pipeline_from_dict
from support.patience import RUN_TIMES
from support.storage.states import rows_of

pytestmark = pytest.mark.turns(3, of="files")

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ROWS, CUT, REACHED_S = 600, 300, 200
"""Rows come one a second; those before CUT are in the state, and windows that end by REACHED_S are not."""


DEEP = {
    "kinds": "count(distinct id % 5)",
    "opening": "first(id)",
    "closing": "last(cost)",
    "spread": "stddev(id)",
    "rough": "var_pop(id * 0.5)",
}
"""Aggregates whose state is no single value."""


def table(out: Path, name: str) -> dict[str, Any]:
    """A table that takes every version of a row."""
    out.mkdir(exist_ok=True)
    return {"url": f"sqlite:///{out / name}.db", "table": "rows", "updates": "as_rows", "create_table": True}


def pipeline(out: Path) -> Pipeline:
    """Totals by key and windows of 50 s, of rows in two partitions in turn."""
    return pipeline_from_dict(
        {
            "name": "orders",
            "parallelism": 2,
            "sources": {
                "orders": {
                    "generator": {
                        "rows": ROWS,
                        "partitions": 2,
                        "columns": {
                            "id": {"sequence": {}},
                            "at": {"time": {"start": "1970-01-01T00:00:00Z", "step": "1s"}},
                        },
                    },
                    "schema": {"id": "int64 not null", "at": "timestamp not null"},
                    "time": {"column": "at", "out_of_orderness": "60s"},
                }
            },
            "steps": {
                "keyed": {
                    "from": "orders",
                    "with_columns": {
                        "k": "id % 7",
                        "day": "date '1970-01-01'",
                        "cost": "cast(id as decimal(20,2))",
                        "price": "cast(id % 7 as decimal(20,2))",
                    },
                },
                "totals": {
                    "from": "keyed",
                    "key_by": ["k", "day"],
                    "aggregate": {
                        "n": "count(*)",
                        "total": "sum(id)",
                        "cost": "sum(cost)",
                        "half": "avg(id) / 2",
                        **DEEP,
                    },
                },
                "windows": {
                    "from": "keyed",
                    "key_by": ["k", "price"],
                    "window": {"tumbling": "50s"},
                    "aggregate": {"n": "count(*)", "worst": "max(id)", **DEEP},
                },
                "all": {"from": "orders", "aggregate": {"n": "count(*)"}},
            },
            "sinks": {
                "fired": {"from": "windows", "files": {"path": str(out / "windows")}, "format": "json"},
                **{
                    f"{name}_out": {"from": name, "parallelism": 1, "sql": table(out, name)}
                    for name in ("totals", "all")
                },
            },
        }
    )


def run(model: Pipeline, folder: Path, savepoint: str | None = None) -> None:
    """As `headrace run` does."""
    origin = None
    if savepoint is not None:
        plans = JobPlans(model.to_dict())
        origin = find_origin(OriginWish(savepoint), plans, model.parallelism, time.time_ns() // 1_000_000)
    outcome = SlotRun(model, RunOptions(origin=origin, times=times_from(RUN_TIMES)), Home(folder / "home")).run()
    assert outcome.failure is None
    assert outcome.state is JobState.FINISHED


def fired(out: Path) -> list[dict[str, Any]]:
    files = sorted((out / "windows").glob("*.json*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def last(out: Path, name: str) -> dict[tuple[object, ...], tuple[object, ...]]:
    """The last row of each key: the one that counted most."""
    with closing(sqlite3.connect(out / f"{name}.db")) as database:
        rows = database.execute("select * from rows order by n").fetchall()
    keys = 2 if name == "totals" else 0
    return {row[:keys]: row for row in rows}


def states(spark: SparkSession) -> dict[str, DataFrame]:
    """What the rows before the cut come to, computed by Spark."""
    from pyspark.sql import functions as sql

    rows = (
        spark.range(CUT)
        .withColumn("k", sql.col("id") % 7)
        .withColumn("day", sql.to_date(sql.lit("1970-01-01")))
        .withColumn("cost", sql.col("id").cast("decimal(20,2)"))
        .withColumn("price", sql.col("k").cast("decimal(20,2)"))
        .withColumn("window_start", sql.timestamp_seconds(sql.floor(sql.col("id") / 50) * 50))
        .withColumn("window_end", sql.timestamp_seconds(sql.floor(sql.col("id") / 50) * 50 + 50))
    )
    total = [
        sql.count("*").alias("n"), sql.sum("id").alias("total"), sql.count("id").alias("total.count"),
        sql.sum("cost").alias("cost"), sql.count("cost").alias("cost.count"),
        sql.timestamp_seconds(sql.max("id")).alias("__ts"),
    ]  # fmt: skip
    late = rows.where(sql.col("id") >= REACHED_S)
    by = ("k", "price", "window_start", "window_end")
    spread = [sql.sum("id").alias("spread.sum"), sql.count("id").alias("spread.count")]
    return {
        "totals": rows.groupBy("k", "day").agg(*total, *deep()),
        "windows": late.groupBy(*by).agg(sql.count("*").alias("n"), sql.max("id").alias("worst"), *spread, *deep()),
        "all": rows.agg(sql.count("*").alias("n")),
    }


def deep() -> list[Column]:
    """What DEEP needs beside sum and count of id: sets, rows with their places, sums of squares."""
    from pyspark.sql import functions as sql

    half = sql.col("id") * 0.5

    def row(name: str, pick: Callable[[str], Column], value: str) -> list[Column]:
        """Rows are in the order of their ids."""
        place = {
            name: value,
            f"{name}.ts": "timestamp_seconds(id)",
            f"{name}.source": "'orders'",
            f"{name}.topic": "'orders'",
            f"{name}.partition": "id % 2",
            f"{name}.offset": "cast(floor(id / 2) as bigint)",
        }
        return [pick(made).alias(part) for part, made in place.items()]

    return [
        sql.collect_set(sql.col("id") % 5).alias("kinds.values"),
        *row("opening", lambda made: sql.min_by(sql.expr(made), "id"), "id"),
        *row("closing", lambda made: sql.max_by(sql.expr(made), "id"), "cost"),
        sql.sum(sql.col("id") * sql.col("id")).alias("spread.squares"),
        sql.sum(half).alias("rough.sum"), sql.count(half).alias("rough.count"),
        sql.sum(half * half).alias("rough.squares"),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def savepoint(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("bootstrap")
    return bootstrap(
        spark,
        pipeline(folder),
        str(folder / "savepoints"),
        states(spark),
        positions={"orders": {"orders": {0: CUT // 2, 1: CUT // 2}}},
        reached=datetime.fromtimestamp(REACHED_S, UTC),
    )


@pytest.mark.full  # `test_bootstrap_kafka` has a smaller one
def test_a_job_goes_on_from_it(savepoint: str, tmp_path: Path) -> None:
    straight, restored = pipeline(tmp_path / "straight"), pipeline(tmp_path / "restored")
    run(straight, tmp_path)
    run(restored, tmp_path, savepoint)
    for name in ("totals", "all"):
        assert last(tmp_path / "restored", name) == last(tmp_path / "straight", name)
    expected = [row for row in fired(tmp_path / "straight") if _seconds(row["window_end"]) > REACHED_S]
    assert expected
    assert _sorted(fired(tmp_path / "restored")) == _sorted(expected)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row) for row in rows)


@pytest.mark.full
def test_keys_lie_in_the_shares_that_own_them(savepoint: str, tmp_path: Path) -> None:
    manifest = find(savepoint).manifest
    assert damage(manifest) is None
    plan = JobPlans(pipeline(tmp_path).to_dict()).plan(2)
    for node, state in (("totals", "groups"), ("windows", "windows")):
        handles = [handle for handle in manifest.states if (handle.node, handle.state) == (node, state)]
        assert len(handles) == 2, "both tasks had rows"
        for handle in handles:
            own = manifest.model_copy(update={"states": (handle,)})
            keys = rows_of(chosen_state(own, node, state)).select(handle.keys)
            numbers = share_numbers(given_states(plan, [node])[node], keys, 2, manifest.max_parallelism)
            assert numbers.unique().to_list() == [handle.subtask]
    folder = Path(savepoint)
    assert not list(folder.rglob("state/*.json")), "reports of tasks are gone"


WRONG: Mapping[str, tuple[str, str]] = {
    "no such column": ("*, 1 as m", "step all: it takes no column 'm'"),
    "wrong type": ("cast(n as string) as n", r"step all: column 'n' \(count of rows\) is int64, and String was given"),
    "no column": ("n as total", "step all: it takes no column 'total'"),
    "not a count": ("-n as n", r"step all: column 'n' \(count of rows\) is negative"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_frames_are_named(spark: SparkSession, tmp_path: Path, case: str) -> None:
    columns, message = WRONG[case]
    frame = spark.sql("select cast(3 as bigint) as n").selectExpr(*columns.split(", "))
    with pytest.raises(UserError, match=message):
        bootstrap(spark, pipeline(tmp_path), str(tmp_path / "savepoints"), {"all": frame})
    assert not [path for path in (tmp_path / "savepoints").rglob("*") if path.is_file()]


def test_a_key_that_is_there_twice_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    one = states(spark)["totals"]
    with pytest.raises(UserError, match=r"step totals: k [0-6], day 1970-01-01 is there more than once"):
        bootstrap(spark, pipeline(tmp_path), str(tmp_path / "savepoints"), {"totals": one.union(one)})


def test_the_columns_of_a_step(tmp_path: Path) -> None:
    columns = bootstrap_columns(pipeline(tmp_path), "totals")
    required = [column.name for column in columns if column.required]
    assert required[:6] == ["k", "day", "n", "total", "cost", "opening"]
    assert {"total.count", "kinds.values", "rough.sum", "opening.ts"} < set(required)
    assert pl.Series([column.meaning for column in columns]).is_in(["sum of id"]).sum() == 1
