"""`partition:` is checked before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.errors import InvalidPipelineError
from headrace.local.engine.compile import Compiled, compile_pipeline
from headrace.plan.partitioning import Hash, Partitioning, Rebalance
from headrace.spec.reading.read import pipeline_from_dict


@pytest.mark.parametrize("group", ["steps", "sinks"])
@pytest.mark.parametrize("column", ["parts", "place"])
def test_rows_cannot_be_spread_by_a_list_or_a_struct(group: str, column: str) -> None:
    schema = {"i": "int64", "parts": "[int64]", "place": {"x": "float64"}}
    data: dict[str, Any] = {
        "name": "p",
        "sources": {"rows": {"memory": {"name": "unused"}, "schema": schema}},
        "steps": {"kept": {"from": "rows", "filter": "i > 0"}},
        "sinks": {"out": {"from": "kept", "memory": {"name": "unused"}}},
    }
    data[group]["kept" if group == "steps" else "out"]["partition"] = {"hash": [column]}
    with pytest.raises(InvalidPipelineError, match="lists and structs cannot be keys"):
        compile_pipeline(pipeline_from_dict(data))


def _spread(**of: dict[str, Any]) -> Compiled:
    """A pipeline of two subtasks: `rows` to the step `kept` to the sink `out`, with more fields for these nodes."""
    schema = {"i": "int64", "s": "string", "parts": "[int64]"}
    kafka = {"brokers": "b:1", "topic": "out"}
    data: dict[str, Any] = {
        "name": "p",
        "parallelism": 2,
        "sources": {"rows": {"memory": {"name": "unused"}, "schema": schema}},
        "steps": {"kept": {"from": "rows", "filter": "i > 0", **of.get("kept", {})}},
        "sinks": {"out": {"from": "kept", "format": "json", "kafka": kafka | of.get("kafka", {}), **of.get("out", {})}},
    }
    return compile_pipeline(pipeline_from_dict(data))


@pytest.mark.parametrize("node", ["kept", "out"])
def test_broadcast_is_not_replayable(node: str) -> None:
    assert _spread().logical.replayable
    plan = _spread(**{node: {"partition": "broadcast"}}).logical
    assert not plan.replayable
    reasons = {each.name: each.not_replayable for each in plan.nodes if each.not_replayable}
    text = "partition: broadcast gives every subtask every row: the result depends on the parallelism"
    assert reasons == {node: (text,)}


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (["s", "i"], Hash(("s", "i"))),
        (["s", "parts"], Rebalance()),
        ([], Rebalance()),
    ],
)
def test_a_sink_of_other_parallelism_gets_its_rows_by_its_key(key: list[str], expected: Partitioning) -> None:
    plan = _spread(kafka={"key": key} if key else {}, out={"parallelism": 3}).physical
    assert [edge.partitioning for edge in plan.edges if edge.to_task == "out"] == [expected]


def test_what_a_sink_asks_for_goes_before_its_key() -> None:
    plan = _spread(kafka={"key": ["s"]}, out={"parallelism": 3, "partition": "rebalance"}).physical
    assert [edge.partitioning for edge in plan.edges if edge.to_task == "out"] == [Rebalance()]


def test_a_keyed_sink_of_the_same_parallelism_stays_in_its_chain() -> None:
    plan = _spread(kafka={"key": ["s"]}).physical
    assert "out" not in {edge.to_task for edge in plan.edges}
