"""Rows that a sink could not write end a replay before its decision, as they end a live job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.core.errors import UserError
from headrace.core.settings import Home
from headrace.spark.launch.replay import ReplayOptions, prepare
from headrace.spark.task.failures import spark_failures
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.read import pipeline_from_dict
from support.spark.local_exchange import LocalExchange


def pipeline(folder: Path, sink: dict[str, Any], rows: list[dict[str, Any]]) -> Pipeline:
    """Rows of a file to one sink."""
    (folder / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return pipeline_from_dict(
        {
            "name": "checked",
            "sources": {
                "rows": {
                    "files": {"path": str(folder / "rows.json")},
                    "format": "json",
                    "schema": {"k": "string", "n": "int64"},
                }
            },
            "steps": {"texts": {"from": "rows", "select": ["k"]}},
            "sinks": {"out": {"from": "rows", **sink}},
        }
    )


def replay(folder: Path, model: Pipeline, **options: Any) -> int:
    prepared = prepare(model, ReplayOptions(parallelism=2, **options), Home(folder / "home"))
    with spark_failures():
        return prepared.replay(LocalExchange(1), lambda _: None).run().rows_out


def kinds(folder: Path) -> list[str]:
    found = sorted((folder / "home").glob("checkpoints/*/journal/*.json"))
    return [json.loads(path.read_text())["kind"] for path in found]


def sql(folder: Path) -> dict[str, Any]:
    place = {"url": f"sqlite:///{folder}/out.db", "table": "t", "create_table": True}
    return {"sql": {**place, "mode": "upsert", "key": ["k"]}}


def raw(folder: Path) -> dict[str, Any]:
    return {"from": "texts", "files": {"path": str(folder / "out")}, "format": "raw"}


@pytest.mark.parametrize(
    ("sink", "bad", "message"),
    [(sql, None, "a row has no key \\(k is NULL\\)"), (raw, "two\nlines", "column k has a line break")],
)
def test_nothing_is_decided_that_could_not_be_published(
    tmp_path: Path, sink: Any, bad: str | None, message: str
) -> None:
    good = [{"k": f"k{n}", "n": n} for n in range(50)]
    model = pipeline(tmp_path, sink(tmp_path), [*good, {"k": bad, "n": 50}])
    with pytest.raises(UserError, match=f"sink 'out': {message}") as raised:
        replay(tmp_path, model)
    assert raised.value.remedy
    assert kinds(tmp_path) == ["attempt"]
    assert not list((tmp_path / "out").glob("part-*"))
    # the same command again fails again, and goes on once the rows are as they should be
    with pytest.raises(UserError, match=message):
        replay(tmp_path, model)
    (tmp_path / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in good))
    assert replay(tmp_path, model) == 50
    assert kinds(tmp_path) == ["attempt", "attempt", "attempt", "checkpoint", "committed", "finished"]


def test_who_only_looks_at_the_rows_gets_all_of_them(tmp_path: Path) -> None:
    model = pipeline(tmp_path, raw(tmp_path), [{"k": "two\nlines", "n": 1}])
    assert replay(tmp_path, model, publish=False) == 1


def test_a_record_that_the_brokers_client_does_not_take(tmp_path: Path) -> None:
    kafka = {"brokers": "127.0.0.1:1", "topic": "t", "properties": {"message.max.bytes": 2_000}}
    rows = [{"k": "x" * 500, "n": 1}, {"k": "y" * 1_990, "n": 2}]
    model = pipeline(tmp_path, {"kafka": kafka, "format": "json"}, rows)
    prepared = prepare(model, ReplayOptions(parallelism=1), Home(tmp_path / "home"))
    splits = prepared.resolve()
    with (
        pytest.raises(UserError, match=r"most of them of column k, and message\.max\.bytes is 2,000"),
        spark_failures(),
    ):
        prepared.replay(LocalExchange(1), lambda _: None, splits=splits).run()
    assert kinds(tmp_path) == ["attempt"]
