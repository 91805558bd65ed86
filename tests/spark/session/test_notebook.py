"""`headrace.spark.replay` in a session of the user's own: result rows as DataFrames, typed; sinks are left alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

import headrace
import headrace.spark
from headrace.cli.app import app
from headrace.core.errors import UserError

pytestmark = pytest.mark.turns(3, of="files")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 600


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    yield tmp_path / "home"


@pytest.fixture
def in_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands use the session that is there, and leave it."""
    monkeypatch.setattr("headrace.spark.launch.replay.session", lambda *_: nullcontext(spark))


def orders(out: Path, *, files_only: bool = False) -> headrace.Pipeline:
    """A count by shop and minute; and one by shop, which updates, for brokers that nobody reaches."""
    pipeline = headrace.Pipeline("orders", parallelism=2)
    rows = pipeline.source(
        "orders",
        generator={
            "rows": ROWS,
            "rate": 1e9,
            "seed": 5,
            "partitions": 2,
            "columns": {
                "id": {"sequence": {"start": 1}},
                "shop": {"choice": ["north", "south", "east"]},
                "amount": {"int": {"min": 0, "max": 500}, "nulls": 0.1},
                "at": {"time": {"start": "2024-03-01T00:00:00Z", "step": "1s"}},
            },
        },
        schema={"id": "int64 not null", "shop": "string not null", "amount": "int64", "at": "timestamp not null"},
        time={"column": "at"},
    )
    aggregates = {"orders": "count(*)", "total": "sum(amount)"}
    minutes = rows.aggregate("minutes", key_by=["shop"], window={"tumbling": "1m"}, aggregate=aggregates)
    minutes.sink("minutes_out", files={"path": str(out / "minutes")}, format="json")
    totals = rows.aggregate("totals", key_by=["shop"], aggregate=aggregates)
    nowhere = {"brokers": "localhost:1", "topic": "totals", "key": "shop", "mode": "upsert"}
    if not files_only:
        totals.sink("totals_out", kafka=nowhere, format="json")
    return pipeline


def typed(out: Path, folder: Path) -> headrace.Pipeline:
    """A row of every type, from a file."""
    folder.mkdir()
    (folder / "rows.json").write_text(
        '{"b":true,"i":1,"n":-5,"f":0.5,"d":"12.30","s":"é","y":"/w==","on":"2024-02-29",'
        '"t":"2024-02-29T12:00:00.123456Z","xs":[1,null],"st":{"a":1.5,"t":"1969-12-31T23:59:59Z"}}\n'
        '{"b":null,"i":null,"n":null,"f":null,"d":null,"s":null,"y":null,"on":null,"t":null,"xs":null,"st":null}\n'
    )
    pipeline = headrace.Pipeline("typed")
    rows = pipeline.source(
        "rows",
        files={"path": str(folder / "*.json")},
        format="json",
        schema={
            "b": "bool",
            "i": "int32",
            "n": "int64",
            "f": "float64",
            "d": "decimal(10,2)",
            "s": "string",
            "y": "binary",
            "on": "date",
            "t": "timestamp",
            "xs": "[int64]",
            "st": "{a: float64, t: timestamp}",
        },
    )
    rows.sink("out", files={"path": str(out)}, format="json")
    rows.filter("none", "i = 77").sink("nothing", files={"path": str(out / "none")}, format="json")
    return pipeline


def test_results_are_dataframes_and_sinks_stay_untouched(spark: SparkSession, tmp_path: Path, home: Path) -> None:
    with headrace.spark.replay(spark, orders(tmp_path / "out")) as result:
        assert set(result) == {"minutes_out", "totals_out"}
        minutes = result["minutes_out"]
        assert minutes.columns == ["shop", "window_start", "window_end", "orders", "total"]
        assert dict(minutes.dtypes)["window_start"] == "timestamp"
        assert minutes.groupBy().sum("orders").collect()[0][0] == ROWS
        assert result.rows_in == ROWS
        totals = {row.shop: (row.orders, row.total) for row in result["totals_out"].collect()}
        assert result["totals_out"].count() == 3
        summed = minutes.groupBy("shop").agg({"orders": "sum", "total": "sum"}).collect()
        assert {row.shop: (row["sum(orders)"], row["sum(total)"]) for row in summed} == totals
        assert result.counters["minutes"]["rows_in"] == ROWS
        assert result.savepoint is None
        assert list(home.rglob("*.parquet"))
    assert not (tmp_path / "out").exists()
    assert not [path for path in home.rglob("*") if path.is_file()]
    with pytest.raises(UserError, match="closed"):
        result["minutes_out"]
    with pytest.raises(KeyError):
        result["hours_out"]


def test_every_type_comes_through(spark: SparkSession, tmp_path: Path) -> None:
    with headrace.spark.replay(spark, typed(tmp_path / "out", tmp_path / "in").build()) as result:
        full, empty = sorted(result["out"].collect(), key=lambda row: row.b is None)
        assert result["nothing"].count() == 0
        assert result["nothing"].schema == result["out"].schema
    assert set(empty.asDict().values()) == {None}
    instant = datetime(2024, 2, 29, 12, 0, 0, 123456, UTC)
    assert (full.b, full.i, full.n, full.f, full.d) == (True, 1, -5, 0.5, Decimal("12.30"))
    assert (full.s, bytes(full.y), full.on, full.xs) == ("é", b"\xff", date(2024, 2, 29), [1, None])
    assert full.t.astimezone(UTC) == instant
    assert (full.st.a, full.st.t.astimezone(UTC)) == (1.5, datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC))


def test_a_savepoint_outlives_the_result_and_is_gone_on_from(spark: SparkSession, tmp_path: Path) -> None:
    pipeline, kept = orders(tmp_path / "out"), tmp_path / "kept"
    with headrace.spark.replay(spark, pipeline) as whole:
        wanted = {tuple(row) for row in whole["minutes_out"].collect()}
    with headrace.spark.replay(spark, pipeline, savepoint=str(kept), storage=str(tmp_path / "storage")) as first:
        closed = {tuple(row) for row in first["minutes_out"].collect()}
    assert first.savepoint is not None
    assert closed < wanted
    with pipeline.replay(spark, from_savepoint=first.savepoint) as rest:
        assert closed | {tuple(row) for row in rest["minutes_out"].collect()} == wanted
        assert rest.rows_in == 0


@pytest.mark.usefixtures("in_session")
def test_state_with_another_number_of_key_groups_is_hashed_anew_where_that_is_asked_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline, kept = orders(tmp_path / "out"), tmp_path / "kept"
    with headrace.spark.replay(spark, pipeline) as whole:
        wanted = {tuple(row) for row in whole["minutes_out"].collect()}
    with headrace.spark.replay(spark, pipeline, savepoint=str(kept), storage=str(tmp_path / "storage")) as first:
        closed = {tuple(row) for row in first["minutes_out"].collect()}
    with pipeline.replay(spark, from_savepoint=first.savepoint, max_parallelism=6) as rest:
        assert closed | {tuple(row) for row in rest["minutes_out"].collect()} == wanted

    # the open windows alone, in files, by the command
    file = tmp_path / "orders.yaml"
    document = orders(tmp_path / "again", files_only=True).build().to_dict()
    file.write_text(json.dumps({**document, "max_parallelism": 6}))
    refused = CliRunner().invoke(app, ["replay", str(file), "--from-savepoint", str(first.savepoint)])
    assert refused.exit_code == 2
    assert "give --max-parallelism 6" in refused.output
    arguments = ["--from-savepoint", str(first.savepoint), "--max-parallelism", "6", "--allow-dropped-state", "--json"]
    done = CliRunner().invoke(app, ["replay", str(file), *arguments])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows_out"] == len(wanted - closed)


def test_published_rows_are_in_the_sinks(spark: SparkSession, tmp_path: Path) -> None:
    result = headrace.spark.replay(spark, orders(tmp_path / "out", files_only=True), publish=True)
    assert list((tmp_path / "out" / "minutes").glob("part-*"))
    with pytest.raises(UserError, match="published"):
        result["minutes_out"]


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'replai'"):
        getattr(headrace.spark, "replai")  # noqa: B009 - type checkers know that it is not there
