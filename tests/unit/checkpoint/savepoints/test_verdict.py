"""What becomes of state under a changed pipeline: the state is written by the real steps of the old one."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from headrace.checkpoint.manifest import FilePart, Manifest, StateHandle
from headrace.checkpoint.savepoints.verdict import NodeVerdict, judge, loses_state
from headrace.core.batch import TS
from headrace.core.errors import UserError
from headrace.core.source_state import SourceState, SplitState
from headrace.operators.aggregate import AggregateConfig
from headrace.plan.chaining import plan_physical
from headrace.plan.logical import plan_logical
from headrace.plan.physical import PhysicalPlan, SourceSpec, StepSpec
from headrace.spec.reading.read import pipeline_from_dict
from headrace.state.parquet import write_chunks
from support.oracles.collector import Collected

HOURLY = {
    "from": "flights",
    "key_by": ["origin"],
    "window": {"tumbling": "1h"},
    "aggregate": {"n": "count(*)", "worst": "max(dep_delay)"},
}
FLIGHTS = {
    "kafka": {"brokers": "localhost:9092", "topic": "flights"},
    "format": "json",
    "schema": {"origin": "string", "dep_delay": "float64", "carrier": "string"},
}


def pipeline(**changed: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "name": "flights",
        "sources": {"flights": FLIGHTS},
        "steps": {"hourly": HOURLY},
        "sinks": {"out": {"from": "hourly", "print": {}}},
    }
    return base | changed


def plan(**changed: Any) -> PhysicalPlan:
    model = pipeline_from_dict(pipeline(**changed))
    return plan_physical(plan_logical(model), model)


def checkpoint(of: PhysicalPlan) -> Manifest:
    """What a job with that plan would have written after one row."""
    nodes = [node for task in of.tasks for node in task.nodes]
    states: list[StateHandle] = []
    for node in nodes:
        if not isinstance(node, StepSpec) or not isinstance(node.config, AggregateConfig):
            continue
        operator = node.config.open()
        row = {"origin": ["JFK"], "dep_delay": [3.0], "carrier": ["AA"], TS: [5]}
        frame = pl.DataFrame(row, schema={**node.config.input.polars(), TS: pl.Int64()})
        operator.on_batch(frame, Collected())
        for state in operator.snapshot():
            columns = {name: dtype for file in write_chunks(state.chunks) for name, dtype in file.columns.items()}
            file = FilePart(path=f"state/{state.name}", row_groups=(0,), rows=state.rows, bytes=1, checksum="xxh64:0")
            states.append(
                StateHandle(
                    node=node.node,
                    state=state.name,
                    kind=state.kind.value,
                    keys=state.keys,
                    subtask=0,
                    first_group=0,
                    last_group=of.max_parallelism - 1,
                    columns=columns,
                    files=(file,),
                )
            )
    sources = [node.node for node in nodes if isinstance(node, SourceSpec)]
    kinds = {node.node: "source" if isinstance(node, SourceSpec) else "sink" for node in nodes}
    return Manifest(
        kind="savepoint",
        job="job",
        pipeline="flights",
        epoch=4,
        attempt=1,
        created_at_ms=0,
        version="1",
        plan_hash="",
        max_parallelism=of.max_parallelism,
        parallelism={},
        nodes=kinds | {node.node: node.verb for node in nodes if isinstance(node, StepSpec)},
        states=tuple(states),
        sources={name: SourceState((SplitState("flights", 0, 7), SplitState("flights", 1, 9))) for name in sources},
        splits={},
    )


def verdicts(before: PhysicalPlan, after: PhysicalPlan, **renames: str) -> dict[str, NodeVerdict]:
    found = judge(checkpoint(before), after, renames)
    assert loses_state(found) == any(each.verdict in ("partly", "dropped", "incompatible") for each in found)
    return {each.node: each for each in found}


def told(found: dict[str, NodeVerdict]) -> dict[str, str]:
    return {name: each.verdict.value for name, each in found.items()}


def test_the_same_pipeline_goes_on_with_all_it_had() -> None:
    found = verdicts(plan(), plan())
    assert told(found) == {"flights": "restored", "hourly": "restored"}
    assert found["flights"].text == "goes on at the positions of 2 partitions of flights"
    assert found["hourly"].text == "1 row of state"


def test_another_parallelism_is_fine_and_another_max_parallelism_is_not() -> None:
    assert set(told(verdicts(plan(), plan(parallelism=7))).values()) == {"restored"}
    found = verdicts(plan(), plan(max_parallelism=64))
    assert told(found) == {"flights": "restored", "hourly": "incompatible"}
    assert "set max_parallelism: 128, or give --max-parallelism 64" in found["hourly"].text
    found = {each.node: each for each in judge(checkpoint(plan()), plan(max_parallelism=64), {}, rehashes=True)}
    assert told(found) == {"flights": "restored", "hourly": "restored"}
    assert found["hourly"].text == "1 row of state; all of it is read: max_parallelism was 128 and is 64"
    assert "max_parallelism" not in judge(checkpoint(plan()), plan(), {}, rehashes=True)[1].text


def test_values_that_are_not_asked_for_any_more_are_named() -> None:
    more = HOURLY | {"aggregate": {"n": "count(*)", "mid": "median(dep_delay)", "kinds": "count(distinct carrier)"}}
    found = verdicts(plan(steps={"hourly": more}), plan(steps={"hourly": HOURLY | {"aggregate": {"n": "count(*)"}}}))
    assert "values of dep_delay, distinct values of carrier" in found["hourly"].text


def test_a_step_that_was_added_is_new() -> None:
    daily = HOURLY | {"window": {"tumbling": "1d"}}
    good = {"from": "flights", "filter": "dep_delay > 0"}
    sinks = {"out": {"from": "hourly", "print": {}}, "days": {"from": "daily", "print": {}}}
    after = plan(steps={"good": good, "hourly": HOURLY | {"from": "good"}, "daily": daily}, sinks=sinks)
    assert told(verdicts(plan(), after)) == {
        "flights": "restored",
        "good": "new",
        "hourly": "restored",
        "daily": "new",
    }


def test_a_step_that_was_removed_loses_its_state_unless_it_kept_none() -> None:
    steps = {"good": {"from": "flights", "filter": "dep_delay > 0"}, "hourly": HOURLY | {"from": "good"}}
    assert "good" not in verdicts(plan(steps=steps), plan())
    found = verdicts(plan(), plan(steps={"good": steps["good"]}, sinks={"out": {"from": "good", "print": {}}}))
    assert told(found) == {"flights": "restored", "good": "new", "hourly": "dropped"}
    assert found["hourly"].text == "is not there any more: 1 row of state"


def test_a_step_that_changed_its_name_is_lost_without_a_rename() -> None:
    after = plan(steps={"per_hour": HOURLY}, sinks={"out": {"from": "per_hour", "print": {}}})
    assert told(verdicts(plan(), after)) == {"flights": "restored", "per_hour": "new", "hourly": "dropped"}
    found = verdicts(plan(), after, hourly="per_hour")
    assert told(found) == {"flights": "restored", "per_hour": "restored"}
    assert found["per_hour"].text == "was hourly; 1 row of state"


def test_other_aggregates_are_named() -> None:
    less = plan(steps={"hourly": HOURLY | {"aggregate": {"n": "count(*)"}}})
    found = verdicts(plan(), less)
    assert told(found)["hourly"] == "partly"
    assert found["hourly"].text.endswith("max of dep_delay would be lost")
    more = plan(steps={"hourly": HOURLY | {"aggregate": {**HOURLY["aggregate"], "least": "min(dep_delay)"}}})  # type: ignore[dict-item]
    assert told(verdicts(plan(), more))["hourly"] == "restored"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"window": {"tumbling": "2h"}}, "tumbling"),
        ({"key_by": ["carrier"]}, "was kept by [origin]"),
        ({"window": None}, "none"),
    ],
)
def test_another_key_or_window_cannot_use_the_state(change: dict[str, Any], reason: str) -> None:
    step = {key: value for key, value in (HOURLY | change).items() if value is not None}
    found = verdicts(plan(), plan(steps={"hourly": step}))
    assert told(found)["hourly"] == "incompatible"
    assert reason in found["hourly"].text


def test_another_type_of_the_key_cannot_use_the_state() -> None:
    schema = {"origin": "int64", "dep_delay": "float64", "carrier": "string"}
    found = verdicts(plan(), plan(sources={"flights": FLIGHTS | {"schema": schema}}))
    assert told(found)["hourly"] == "incompatible"
    assert "Int64" in found["hourly"].text


def test_sources_are_judged_by_name() -> None:
    after = plan(sources={"other": FLIGHTS}, steps={"hourly": HOURLY | {"from": "other"}})
    found = verdicts(plan(), after)
    assert told(found) == {"other": "new", "hourly": "restored", "flights": "dropped"}
    assert found["flights"].text == "is not there any more: positions of 2 partitions"
    assert told(verdicts(plan(), after, flights="other")) == {"other": "restored", "hourly": "restored"}


def test_another_connector_has_other_positions_where_the_manifest_tells() -> None:
    before = checkpoint(plan())
    before = before.model_copy(update={"nodes": before.nodes | {"flights": "source files"}})
    found = {each.node: each for each in judge(before, plan(), {})}
    assert found["flights"].verdict == "incompatible"
    assert found["flights"].text.startswith("read from files and reads from kafka now")


def test_a_source_does_not_become_a_step() -> None:
    good = {"from": "input", "filter": "dep_delay > 0"}
    after = plan(sources={"input": FLIGHTS}, steps={"flights": good, "hourly": HOURLY})
    assert told(verdicts(plan(), after))["flights"] == "incompatible"


@pytest.mark.parametrize(
    ("renames", "message"),
    [
        ({"hurly": "hourly"}, "has no node 'hurly'"),
        ({"hourly": "huorly"}, "has no node 'huorly'"),
        ({"flights": "hourly"}, "flights and hourly would both become hourly"),
    ],
)
def test_renames_that_mean_nothing_are_refused(renames: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        judge(checkpoint(plan()), plan(), renames)
    assert caught.value.remedy is not None
