"""Sinks with `on_error`: their output `bad`, the sinks of their dead letters, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.errors import InvalidPipelineError
from headrace.local.engine.compile import Compiled, compile_pipeline
from headrace.operators.operator import OnError
from headrace.plan.explain import plan_dict
from headrace.plan.physical import SinkSpec
from headrace.spec.reading.read import pipeline_from_dict

KAFKA: dict[str, Any] = {"brokers": "b:1", "topic": "out"}
SOURCES: dict[str, dict[str, Any]] = {
    "kafka": {"kafka": {"brokers": "c:1", "topic": "t"}, "format": "json"},
    "generator": {"generator": {"rows": 1, "columns": {"x": {"sequence": {}}, "y": {"sequence": {}}}}},
}


def compiled(sinks: dict[str, Any], *, source: str = "kafka", **more: Any) -> Compiled:
    made = SOURCES[source] | {"schema": {"x": "int64", "y": "int64"}}
    return compile_pipeline(pipeline_from_dict({"name": "p", "sources": {"a": made}, "sinks": sinks} | more))


def out(
    rule: object, *, connector: str = "kafka", settings: dict[str, Any] = KAFKA, reads: str = "a"
) -> dict[str, Any]:
    return {"from": reads, connector: settings, "format": "json", "on_error": rule}


def problems(sinks: dict[str, Any], **more: Any) -> dict[tuple[str, ...], tuple[str, str | None]]:
    with pytest.raises(InvalidPipelineError) as raised:
        compiled(sinks, **more)
    return {tuple(each.path): (each.message, each.remedy) for each in raised.value.problems}


def spec(found: Compiled, name: str) -> SinkSpec:
    node = found.logical.node(name).spec
    assert isinstance(node, SinkSpec)
    return node


def test_dead_letters_of_a_kafka_sink_go_to_its_own_brokers_with_its_key() -> None:
    for source in ("kafka", "generator"):
        found = compiled(
            {"out": out({"dead_letter": "bad"}, settings=KAFKA | {"key": "x", "delivery": "exactly-once"})},
            source=source,
        )
        letters = spec(found, "out.bad")
        assert letters.implicit
        config = letters.config.model_dump()
        assert (config["brokers"], config["topic"], config["key"], config["delivery"]) == (
            "b:1",
            "bad",
            ("x",),
            "exactly-once",
        )
        assert (letters.encoded.names, spec(found, "out").on_error) == (("x", "y"), OnError.DIVERT)
        assert [task.name for task in found.physical.tasks] == ["a"], "letters are written in the sink's own task"


def test_steps_and_sinks_read_the_output_bad_of_a_sink() -> None:
    sinks = {"kept": {"from": "short", "kafka": KAFKA, "format": "json"}, "out": out("divert")}
    found = compiled(sinks, steps={"short": {"from": "out.bad", "select": ["y", "reason"]}})
    assert [node.name for node in found.logical.nodes] == ["a", "out", "short", "kept"]
    assert found.logical.node("kept").spec.schema.names == ("y", "reason")  # type: ignore[union-attr]


def test_a_policy_is_part_of_the_plan_and_its_absence_is_not() -> None:
    for rule, shown in (("fail", None), ("skip", "skip"), ("divert", "divert")):
        found = compiled({"out": out(rule)})
        _, sink = plan_dict(found.physical)["tasks"][0]["nodes"]
        assert sink.get("on_error") == found.pipeline.to_dict()["sinks"]["out"].get("on_error") == shown


@pytest.mark.parametrize(("connector", "settings"), [("print", {}), ("files", {"path": "out"})])
def test_sinks_that_leave_out_no_row_refuse_the_word(connector: str, settings: dict[str, Any]) -> None:
    found = problems({"out": out("skip", connector=connector, settings=settings)})
    message, remedy = found["sinks", "out", "on_error"]
    assert message.startswith(f"this {connector} sink has no on_error")
    assert remedy is not None


def test_outputs_that_are_not_there() -> None:
    steps = {"s": {"from": "out.bad", "select": ["x"]}, "t": {"from": "out", "select": ["x"]}}
    found = problems({"out": out("skip")}, steps=steps)
    assert found["steps", "s", "from"] == ("'out' has no output 'bad'", "set `on_error: divert` on 'out'")
    assert found["steps", "t", "from"][0] == "'out' is a sink: nothing can read it"


def test_a_sink_that_reads_its_own_bad_rows_is_a_cycle() -> None:
    found = problems({"out": out("divert", reads="s")}, steps={"s": {"from": "out.bad", "select": ["x"]}})
    assert [message for message, _ in found.values()] == ["a cycle: s -> out -> s"]


def test_dead_letters_of_a_table_go_to_the_brokers_of_the_source() -> None:
    sql = {"from": "a", "sql": {"url": "sqlite:////x.db", "table": "t"}, "on_error": {"dead_letter": "bad"}}
    assert spec(compiled({"out": sql}), "out.bad").config.model_dump()["brokers"] == "c:1"
    message, remedy = problems({"out": sql}, source="generator")["sinks", "out", "on_error"]
    assert message == "dead letters go to the brokers of a kafka source, and a above it is not one"
    assert remedy == "use `on_error: divert` and a sink that reads the output .bad"
    other = sql | {"sql": {"url": "mysql://h/d", "table": "t"}, "on_error": "skip"}
    assert "sqlite" in str(problems({"out": other})["sinks", "out", "on_error"]).lower()
