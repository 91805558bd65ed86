from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from headrace.connect.sink import CheckpointTerms, SinkContext
from headrace.core.errors import UserError
from headrace.core.types import schema_of
from headrace.local.engine.compile import compile_pipeline
from headrace.plan.explain import explain_dict, plan_dict
from headrace.spec.reading.read import pipeline_from_dict
from headrace_connectors.sql import SqlSinkConfig
from headrace_connectors.sql.tables.target import Target

URL = "postgresql://user:hush@localhost/flights"
TERMS = CheckpointTerms(interval_ms=1_000, timeout_ms=1_000, aligned=True, tolerable_failures=0, restart_delay_ms=0)
CONTEXT = SinkContext("job", "out", 1, 2, schema_of({"k": "string", "n": "int64"}), attempt=3, checkpoint=TERMS)


def sink(**fields: Any) -> SqlSinkConfig:
    return SqlSinkConfig.model_validate({"url": URL, "table": "delays"} | fields)


def test_what_is_left_out() -> None:
    config = sink()
    assert (config.mode, config.delivery, config.create_table, config.key) == ("append", "at-least-once", False, None)
    assert (config.dialect, config.target) == ("postgresql", Target("delays"))
    assert not config.accepts_updates
    assert not config.exactly_once
    assert config.transactions(CONTEXT) == ()
    assert config.open_committer(CONTEXT) is None
    assert config.commit_within_ms is None


@pytest.mark.parametrize("dtype", ["[float64]", "{f: float32}", "[{f: [float64], s: string}]"])
def test_a_key_that_a_table_has_as_json_with_floats_is_refused(dtype: str) -> None:
    context = replace(CONTEXT, schema=schema_of({"k": dtype, "s": "{n: int64}", "f": "float64", "v": dtype}))
    (problem,) = sink(mode="upsert", key=["f", "k", "s"]).check(context)
    assert problem.startswith(f"key column 'k' is {context.schema.field('k').type}: a table has it as JSON")
    assert sink(mode="upsert", key=["f", "s"]).check(context) == []
    assert sink().check(context) == []


def test_texts_of_a_file_are_read() -> None:
    config = sink(table="s.delays", mode="upsert", key="k", delivery="exactly-once", create_table="true")
    assert config.target == Target("delays", "s")
    assert (config.key_columns, config.create_table) == (("k",), True)
    assert config.accepts_updates
    assert config.accepts_deletes
    assert config.transactions(CONTEXT) == ("headrace-job-out-3-1",)
    assert str(config.target.staged) == "s.delays__headrace_staged"
    assert str(config.target.epochs) == "s.headrace_epochs"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"url": "localhost/flights"}, "no SQLAlchemy URL"),
        ({"url": "postgres://a:hush@h/d"}, "write postgresql://"),
        ({"url": "postgresql+asyncpg://a:hush@h/d"}, "'asyncpg' is not used here: write postgresql://"),
        ({"url": "sqlite://"}, "seen by nobody else"),
        ({"url": "sqlite:///:memory:"}, "seen by nobody else"),
        ({"table": "a.b.c"}, "write table, or schema.table"),
        ({"table": ".b"}, "write table, or schema.table"),
        ({"mode": "upsert"}, "needs key"),
        ({"key": ["k"]}, "key goes with mode: upsert"),
        ({"mode": "upsert", "key": ["k", "k"]}, "a column twice"),
        ({"mode": "upsert", "key": ["k"], "updates": "as_rows"}, "goes with mode: append"),
        ({"url": "mysql://a:hush@h/d", "mode": "upsert", "key": ["k"]}, "mode: upsert is for PostgreSQL and SQLite"),
        ({"url": "mysql://a:hush@h/d", "delivery": "exactly-once"}, "delivery: exactly-once is for PostgreSQL"),
        ({"table": "t" * 47, "delivery": "exactly-once"}, "at most 46 bytes"),
    ],
)
def test_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as raised:
        sink(**fields)
    texts = [str(error["msg"]) for error in raised.value.errors()]
    assert message in " ".join(texts)
    assert "hush" not in " ".join(texts)


@pytest.mark.parametrize(
    ("terms", "messages"),
    [
        (TERMS, []),
        (None, []),
        (replace(TERMS, interval_ms=None), ["give checkpoint an interval"]),
        (replace(TERMS, aligned=False), ["write checkpoint: {mode: exactly-once}"]),
    ],
)
def test_exactly_once_needs_checkpoints(terms: CheckpointTerms | None, messages: list[str]) -> None:
    context = replace(CONTEXT, checkpoint=terms)
    assert sink().check(context) == []
    found = sink(delivery="exactly-once").check(context)
    assert len(found) == len(messages)
    assert all(message in text for message, text in zip(messages, found, strict=True))


def test_the_password_is_nowhere_to_be_seen() -> None:
    pipeline = pipeline_from_dict(
        {
            "name": "p",
            "sources": {"s": {"memory": {"rows": [{"k": "a"}]}, "schema": {"k": "string"}}},
            "sinks": {"out": {"from": "s", "sql": {"url": URL, "table": "delays"}}},
        }
    )
    assert pipeline.to_dict()["sinks"]["out"]["sql"]["url"] == URL
    assert pipeline.shown()["sinks"]["out"]["sql"] == {"url": "***", "table": "delays"}
    config = pipeline.sinks["out"].config
    assert "hush" not in f"{config!r} {config} {pipeline!r}"
    compiled = compile_pipeline(pipeline)
    assert "hush" not in str(plan_dict(compiled.physical))
    assert "hush" not in str(explain_dict(compiled.logical, compiled.physical))


def test_a_pipeline_is_read_without_the_extra_and_opened_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import sys, headrace_connectors.sql; sys.exit('sqlalchemy' in sys.modules or 'psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0

    monkeypatch.delitem(sys.modules, "headrace_connectors.sql.client", raising=False)
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(UserError, match="sqlalchemy is not installed") as raised:
        sink().open_writer(CONTEXT)
    assert raised.value.remedy == "pip install 'headrace[sql]'"
