from __future__ import annotations

from typing import Any

import pytest

from headrace.core.errors import InvalidPipelineError
from headrace.local.engine.compile import compile_pipeline
from headrace.plan.physical import SinkSpec
from headrace.spec.reading.read import pipeline_from_dict
from headrace_connectors.kafka import KafkaSinkConfig, KafkaSourceConfig


def made(sink: dict[str, Any], **settings: Any) -> dict[str, KafkaSinkConfig]:
    """The Kafka sinks of a pipeline whose source and step write dead letters, by name."""
    data = {
        "name": "p",
        "sources": {
            "a": {
                "kafka": {"brokers": "b:1", "topic": "t"},
                "format": "json",
                "schema": {"x": "string"},
                "on_error": {"dead_letter": "bad"},
            }
        },
        "steps": {"b": {"from": "a", "select": {"n": "cast(x as bigint)"}, "on_error": {"dead_letter": "worse"}}},
        "sinks": {"out": {"from": "b"} | sink},
    } | settings
    nodes = compile_pipeline(pipeline_from_dict(data)).logical.nodes
    specs = [node.spec for node in nodes if isinstance(node.spec, SinkSpec)]
    return {spec.node: spec.config for spec in specs if isinstance(spec.config, KafkaSinkConfig)}


def kafka(**fields: Any) -> dict[str, Any]:
    return {"kafka": {"brokers": "b:1", "topic": "out"} | fields, "format": "json"}


def test_dead_letters_are_delivered_as_the_job_delivers() -> None:
    plain = made(kafka())
    assert {name: config.delivery for name, config in plain.items()} == dict.fromkeys(
        ("out", "a.bad", "b.bad"), "at-least-once"
    )
    exact = made(kafka(delivery="exactly-once", transaction_timeout="14m"))
    assert {name: config.delivery for name, config in exact.items()} == dict.fromkeys(
        ("out", "a.bad", "b.bad"), "exactly-once"
    )
    assert {config.transaction_timeout_ms for config in exact.values()} == {14 * 60_000}


def test_exactly_once_without_checkpoints_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidPipelineError) as raised:
        made(kafka(delivery="exactly-once"), checkpoint={"interval": "none"})
    problem, *others = raised.value.problems
    assert problem.path == ("sinks", "out", "kafka")
    assert problem.message.startswith("delivery: exactly-once makes rows visible when a checkpoint is committed")
    assert {each.path for each in others} == {("sources", "a", "on_error"), ("steps", "b", "on_error")}


def test_a_source_that_names_a_connector_without_a_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KafkaSourceConfig, "dead_letter_sink", lambda *_, **__: ("generator", {}))
    with pytest.raises(InvalidPipelineError) as raised:
        made(kafka())
    assert {problem.path: problem.message for problem in raised.value.problems} == dict.fromkeys(
        (("sources", "a", "on_error"), ("steps", "b", "on_error")),
        "the kafka source sends dead letters to generator, which has no sink",
    )
