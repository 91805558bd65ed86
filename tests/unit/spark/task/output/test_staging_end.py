"""Rows that a sink could not write end a replay before its decision, as they end a live job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.core.batch import O_TEXT
from headrace.core.errors import UserError
from headrace.core.settings import Home
from headrace.execution.planning import plan_sinks
from headrace.local.engine.compile import compile_pipeline
from headrace.local.engine.job import LocalJob
from headrace.spark.launch.replay import ReplayOptions, prepare
from headrace.spark.launch.staged_rows import StagedRows
from headrace.spark.task.failures import spark_failures
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.read import pipeline_from_dict
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import consume_all, create_topic, unique_topic
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


def large_rows(folder: Path, on_error: object, more: dict[str, Any]) -> Pipeline:
    """Three rows to a Kafka sink, of which the second is too large."""
    kafka = {"brokers": "127.0.0.1:1", "topic": "t"}
    rows = [{"k": "x" * 500, "n": 1}, {"k": "y" * 1_200_000, "n": 2}, {"k": "z", "n": 3}]
    model = pipeline(folder, {"kafka": kafka, "format": "json", "on_error": on_error}, rows)
    made = model.to_dict()
    return pipeline_from_dict(made | {"sinks": made["sinks"] | more})


def staged(folder: Path, model: Pipeline) -> StagedRows:
    """What a replay would publish."""
    prepared = prepare(model, ReplayOptions(parallelism=2, publish=False), Home(folder / "home"))
    outcome = prepared.replay(LocalExchange(1), lambda _: None).run()
    return StagedRows(outcome, {sink.node: sink for _, sink in plan_sinks(prepared.plans.plan(1))})


def test_rows_that_a_sink_leaves_out_go_where_they_go_in_a_live_job(tmp_path: Path) -> None:
    kept = {"kept": {"from": "out.bad", "files": {"path": str(tmp_path / "kept")}, "format": "json"}}
    for on_error, more, bad in (("skip", {}, None), ("divert", kept, "kept"), ({"dead_letter": "dead"}, {}, "out.bad")):
        rows = staged(tmp_path, large_rows(tmp_path, on_error, more))
        assert rows.frame("out").get_column("n").to_list() == [1, 3]
        assert rows.outcome.bad == 1
        if bad is not None:
            (row,) = rows.frame(bad).to_dicts()
            assert row["reason"].startswith("the record of a row has 1,2")
            # too large for the topic of dead letters, too: only its place and the reason are left
            assert row["n"] == (2 if bad == "kept" else None)
            assert bad == "kept" or row[O_TEXT] == "rows"


@pytest.mark.parametrize(("sink", "why"), [(sql, "the constraints"), (None, "the clock")])
def test_what_spark_cannot_know_beforehand_is_refused(tmp_path: Path, sink: Any, why: str) -> None:
    kafka = {"kafka": {"brokers": "b:1", "topic": "t", "timestamp": "event"}, "format": "json"}
    node = kafka if sink is None else sink(tmp_path)
    model = pipeline(tmp_path, {**node, "on_error": "skip"}, [])
    with pytest.raises(UserError, match=f"(?s)cannot be replayed.*out: on_error: which rows .* depends on {why}"):
        replay(tmp_path, model)


@pytest.mark.broker
def test_both_engines_write_the_same_dead_letters(tmp_path: Path, broker: EmbeddedBroker) -> None:
    rows: list[dict[str, Any]] = [
        {"k": "a", "n": 1},
        {"k": None, "n": 2},
        {"k": "y" * 1_200_000, "n": 3},
        {"k": "b", "n": 4},
    ]
    written = []
    for engine in ("live", "spark"):
        out, dead = (create_topic(broker, unique_topic(name), 1) for name in ("out", "dead"))
        kafka = {"brokers": broker.bootstrap, "topic": out, "key": "k", "mode": "upsert"}
        model = pipeline(tmp_path, {"kafka": kafka, "format": "json", "on_error": {"dead_letter": dead}}, rows)
        if engine == "live":
            LocalJob(compile_pipeline(model).physical).run()
        else:
            assert replay(tmp_path, model) == 2
        written.append(
            [[(each.key, each.value, each.headers) for each in consume_all(broker, topic)] for topic in (out, dead)]
        )
    (live, letters), (spark, replayed) = written
    assert live == spark
    assert [value for _, value, _ in live] == [b'{"k":"a","n":1}', b'{"k":"b","n":4}']
    assert letters == replayed
    assert [value for _, value, _ in letters] == [b'{"k":null,"n":2}', None]
