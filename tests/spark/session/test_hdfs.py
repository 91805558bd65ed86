"""Staged rows, savepoints and state on HDFS: Python writes them, Spark and Python read them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import headrace
import headrace.spark
from headrace.checkpoint.stores.opening import open_store
from headrace.spark.state_source import register_state
from support.hdfs.cluster import Hdfs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.full

ROWS = 600


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))


def orders(out: Path) -> headrace.Pipeline:
    """A count by shop and minute; the last minute is open."""
    pipeline = headrace.Pipeline("orders", parallelism=2)
    rows = pipeline.source(
        "orders",
        generator={
            "rows": ROWS,
            "rate": 1e9,
            "seed": 5,
            "partitions": 2,
            "columns": {
                "shop": {"choice": ["north", "south", "east"]},
                "at": {"time": {"start": "2024-03-01T00:00:00Z", "step": "1s"}},
            },
        },
        schema={"shop": "string not null", "at": "timestamp not null"},
        time={"column": "at"},
    )
    minutes = rows.aggregate("minutes", key_by=["shop"], window={"tumbling": "1m"}, aggregate={"orders": "count(*)"})
    minutes.sink("minutes_out", files={"path": str(out)}, format="json")
    return pipeline


@pytest.fixture
def session(spark: SparkSession, hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """Its Python processes find HDFS as this one does. Its JVM has begun without settings of Hadoop."""
    for name, value in hdfs.environment().items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(spark.sparkContext.environment, name, value)
    return spark


def test_a_replay_keeps_everything_on_hdfs(session: SparkSession, hdfs: Hdfs, tmp_path: Path) -> None:
    storage, kept = hdfs.url("storage"), hdfs.url("kept")
    pipeline = orders(tmp_path / "out")
    with headrace.spark.replay(session, pipeline) as whole:
        expected = {tuple(row) for row in whole["minutes_out"].collect()}
    with headrace.spark.replay(session, pipeline, savepoint=kept, storage=storage) as first:
        closed = {tuple(row) for row in first["minutes_out"].collect()}
        assert first["minutes_out"].inputFiles()[0].startswith(f"{storage}/")
        staged = open_store(storage).list("")
        assert any(path.endswith(".parquet") for path in staged)
    assert closed < expected
    assert first.savepoint is not None and first.savepoint.startswith(f"{kept}/savepoint-")
    register_state(session)
    # data sources have no environment of their own: this URL needs none
    path = first.savepoint.replace(hdfs.url(""), hdfs.web_url(""))
    read = (
        session.read.format("headrace_state").option("path", path).option("node", "minutes").option("state", "windows")
    )
    assert {row.shop for row in read.load().collect()} == {"north", "south", "east"}
    with pipeline.replay(session, from_savepoint=first.savepoint, storage=storage) as rest:
        assert closed | {tuple(row) for row in rest["minutes_out"].collect()} == expected
