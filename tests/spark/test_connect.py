"""Spark Connect: sessions without RDDs, whose cluster another process drives. The rows are those of the golden."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from typer.testing import CliRunner

import headrace.spark
from headrace.checkpoint.inspection.stored_state import chosen_state
from headrace.checkpoint.savepoints.savepoint import find
from headrace.cli.app import app
from headrace.core.errors import UnreachableError, UserError
from headrace.spark.cluster.session import connected
from headrace.spark.state_source import register_state
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.read import pipeline_from_dict
from support.flows.site import Flow
from support.spark.connect_server import connect_server
from support.storage.states import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOW = Flow("sliding")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2", "spark.log.level": "ERROR"}
    with connect_server(tmp_path_factory.mktemp("connect"), settings) as url:
        yield url


@pytest.fixture(scope="module")
def session(server: str) -> Iterator[SparkSession]:
    """A client's session. pyspark notes in the environment that it speaks to a server from now on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        with connected(server, {"spark.sql.session.timeZone": "UTC"}) as spark:
            yield spark


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))


def pipeline(folder: Path) -> Pipeline:
    return FLOW.load({"OUT": str(folder / "out"), "DATA": str(folder)})


@pytest.mark.full
def test_results_in_a_notebook(session: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as sql

    with headrace.spark.replay(session, pipeline(tmp_path), parallelism=2, until="latest") as result:
        assert result.rows_in == 3_000
        text = sql.to_json(sql.struct("*"), {"ignoreNullFields": "false"})
        rows = {sink: [json.loads(row[0]) for row in result[sink].select(text).collect()] for sink in result}
    assert FLOW.canonical(rows) == FLOW.golden.read_text().splitlines()
    assert not (tmp_path / "out").exists()


def rows_written(out: Path) -> dict[str, list[dict[str, object]]]:
    sinks = FLOW.document["sinks"]
    return {
        sink: [row for file in (out / sink).glob("part-*") for row in pl.read_ndjson(file).to_dicts()] for sink in sinks
    }


def test_the_command(server: str, session: SparkSession, tmp_path: Path) -> None:
    del session  # it has set the environment up
    file = tmp_path / "flow.yaml"
    file.write_text(json.dumps(pipeline(tmp_path).to_dict()))
    where = ["--master", server, "--back-end", "dataframe", "--allow-local-storage", "--parallelism", "2"]
    ran = CliRunner().invoke(
        app, ["replay", str(file), *where, "--savepoint", str(tmp_path / "kept"), "--final", "--json"]
    )
    assert ran.exit_code == 0, ran.output
    document = json.loads(ran.stdout)
    assert (document["state"], document["rows_in"]) == ("FINISHED", 3_000)
    assert FLOW.canonical(rows_written(tmp_path / "out")) == FLOW.golden.read_text().splitlines()
    assert find(document["savepoint"]).manifest.drained


@pytest.mark.full
def test_states_are_read_and_made(session: SparkSession, tmp_path: Path) -> None:
    model = pipeline_from_dict(
        {
            "name": "sums",
            "sources": {
                "made": {"generator": {"rows": 9, "columns": {"id": {"sequence": {}}}}, "schema": {"id": "int64"}}
            },
            "steps": {"sums": {"from": "made", "key_by": ["id"], "aggregate": {"n": "count(*)"}}},
            "sinks": {"out": {"from": "sums", "print": {}}},
        }
    )
    given = session.range(20).selectExpr("id", "id + 1 as n")
    path = headrace.spark.bootstrap(session, model, str(tmp_path), {"sums": given})
    kept = rows_of(chosen_state(find(path).manifest, "sums", "groups"))
    register_state(session)
    read = session.read.format("headrace_state").option("path", path).option("node", "sums").option("state", "groups")
    assert sorted(row.id for row in read.load().select("id").collect()) == sorted(kept["id"]) == list(range(20))


def test_what_is_refused(server: str, session: SparkSession) -> None:
    del session
    with (
        pytest.raises(UserError, match=r"--conf spark\.ui\.enabled: (.|\n)*set it there"),
        connected(server, {"spark.ui.enabled": "true"}),
    ):
        pass
    with (
        pytest.raises(UnreachableError, match=r"no Spark Connect server answers at 127\.0\.0\.1:1"),
        connected("sc://127.0.0.1:1", {}),
    ):
        pass
    with pytest.raises(UserError, match="names no host"), connected("sc://", {}):
        pass
