"""`headrace verify`: the same range on both engines; a difference is found, shown, and told by the exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from typer.testing import CliRunner, Result

import headrace.spark
from headrace.cli.app import app
from headrace.spark.task.output import staging_end as staged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOWS = Path(__file__).parents[2] / "flows"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    return tmp_path / "home"


@pytest.fixture
def in_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command runs in the session that is there: to start another one takes longer than all the rest."""

    @contextmanager
    def session(*_: object) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr("headrace.spark.cluster.session.session", session)


def verify(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["verify", *arguments])


def test_a_flow_is_the_same_on_both_engines(spark: SparkSession, tmp_path: Path, home: Path) -> None:
    verified = headrace.spark.verify(spark, FLOWS / "sliding.yaml")
    assert verified.same
    assert {each.sink: each.rows.equal > 0 for each in verified.sinks} == {"recent_orders": True, "late": True}
    assert verified.rows_in == 3000
    assert not (tmp_path / "out").exists()
    assert not [path for path in home.rglob("*") if path.is_file()]


@pytest.mark.usefixtures("in_session")
def test_the_command_ends_with_0_where_all_rows_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that update, for brokers that nobody reaches."""
    monkeypatch.setenv("KAFKA_BROKERS", "localhost:1")
    monkeypatch.setenv("STEM", "nowhere")
    result = verify(str(FLOWS / "running.yaml"), "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["same"]
    assert all(sink["equal"] and not sink["missing"] for sink in told["sinks"])


@pytest.mark.usefixtures("in_session")
def test_the_command_shows_differences_and_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row changed, one missing, one twice, as if Spark had staged them so."""
    read = staged.read_staged

    def read_otherwise(*args: object) -> Iterator[pl.DataFrame]:
        rows = pl.concat(read(*args))  # type: ignore[arg-type]
        if "window_start" in rows.columns:
            rows = rows.sort("shop", "window_start")
            changed = rows[:1].with_columns(orders=pl.lit(10_000, dtype=pl.Int64))
            rows = pl.concat([changed, rows[2:], rows[-1:]])
        yield rows

    monkeypatch.setattr("headrace.spark.launch.staged_rows.read_staged", read_otherwise)
    result = verify(str(FLOWS / "sliding.yaml"), "--parallelism", "1")
    assert result.exit_code == 1, result.output
    assert "same  late" in result.stdout
    assert "equal, 2 missing on Spark, 2 only on Spark" in result.stdout
    assert "and 10000 there" in result.stdout


def test_a_range_has_two_dots() -> None:
    result = verify(str(FLOWS / "sliding.yaml"), "--range", "earliest")
    assert result.exit_code == 2
    assert "write FROM..UNTIL" in result.output
