"""The channels of a plan: each belongs to one input, also where a node reads one node twice."""

from __future__ import annotations

import pytest

from headrace.execution.planning import plan_pipeline
from headrace.plan.partitioning import Hash
from headrace.plan.physical import PhysicalPlan
from headrace.worker.wiring import wire
from support.two_inputs import register


def plan(patch: pytest.MonkeyPatch, sides: list[str], parallelism: int = 2) -> PhysicalPlan:
    """A step that reads two nodes, or one of them twice."""
    register(patch)
    columns = {"n": {"sequence": {}}, "a": {"int": {"min": 0, "max": 9}}, "b": {"int": {"min": 0, "max": 9}}}
    source = {"generator": {"rows": 9, "columns": columns}, "schema": {"n": "int64", "a": "int64", "b": "int64"}}
    return plan_pipeline(
        {
            "name": "wired",
            "parallelism": parallelism,
            "sources": {"s": source, "t": {**source, "parallelism": 1}},
            "steps": {"both": {"sides": sides, "keys": ["a", "b"]}},
            "sinks": {f"{name}_out": {"from": name, "print": {}} for name in ("both", "s", "t")},
        }
    )


def test_a_node_that_reads_one_node_twice_has_channels_of_both_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    physical = plan(monkeypatch, ["s", "s"])
    left, right = physical.inputs("both")
    assert (left.source, left.output, left.input, left.partitioning) == ("s", "", 0, Hash(("a",)))
    assert (right.source, right.output, right.input, right.partitioning) == ("s", "", 1, Hash(("b",)))
    wiring = wire(physical)
    assert wiring.channels["both"] == ((0, 0, 1, 1), (0, 0, 1, 1))
    assert [dict(wiring.senders[left, sender].channels) for sender in range(2)] == [{0: 0, 1: 0}, {0: 1, 1: 1}]
    assert [dict(wiring.senders[right, sender].channels) for sender in range(2)] == [{0: 2, 1: 2}, {0: 3, 1: 3}]


def test_the_inputs_of_a_node_may_have_different_numbers_of_senders(monkeypatch: pytest.MonkeyPatch) -> None:
    wiring = wire(plan(monkeypatch, ["t", "s"], parallelism=3))
    assert wiring.channels["both"] == ((0, 1, 1, 1),) * 3


def test_it_heads_a_task_also_where_everything_has_one_subtask(monkeypatch: pytest.MonkeyPatch) -> None:
    physical = plan(monkeypatch, ["s", "s"], parallelism=1)
    assert [str(edge.partitioning) for edge in physical.inputs("both")] == ["forward", "forward"]
    assert wire(physical).channels["both"] == ((0, 1),)
