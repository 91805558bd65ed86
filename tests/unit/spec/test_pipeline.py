"""The model: from plain data and back, and what is refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from headrace.core.errors import InvalidPipelineError
from headrace.core.types import ListOf, Primitive, Struct, Timestamp
from headrace.operators.operator import OnError
from headrace.spec.fields import DeadLetter, HashBy, Route
from headrace.spec.reading.read import pipeline_from_dict
from headrace.spec.verbs.aggregate import Aggregate
from headrace.spec.verbs.filter import Filter
from headrace.spec.verbs.map import Map
from headrace.spec.verbs.select import Select
from headrace.spec.verbs.union import Union
from headrace.spec.window import Cumulate, Sliding, Tumbling

pytestmark = pytest.mark.usefixtures("own_connectors")

Data = dict[str, Any]


def flights() -> Data:
    return {
        "name": "flight-delays",
        "parallelism": "2",
        "sources": {
            "flights": {
                "kafka": {"brokers": "localhost:9092", "topic": "123"},
                "format": "json",
                "schema": {
                    "origin": "string not null",
                    "dep_delay": "float64",
                    "scheduled": "timestamp(s)",
                    "legs": [{"to": "string", "km": "int32 not null"}],
                    "plane": {"tail": "string", "seats": "[int32 not null]"},
                },
                "time": {"column": "scheduled", "out_of_orderness": "30m"},
                "on_error": {"dead_letter": "bad-flights"},
            }
        },
        "steps": {
            "departed": {"from": "flights", "filter": "dep_delay is not null", "on_error": "divert"},
            "hourly": {
                "from": "departed",
                "key_by": ["origin"],
                "window": {"tumbling": "1h"},
                "aggregate": {"flights": "count(*)", "worst": "max(dep_delay)"},
                "partition": {"hash": ["origin"]},
            },
        },
        "sinks": {
            "delays": {
                "from": "hourly",
                "kafka": {"brokers": "localhost:9092", "topic": "delays", "key": ["origin"]},
                "format": {"csv": {"delimiter": ";"}},
            },
            "late": {"from": "hourly.late", "print": None},
        },
    }


def changed(change: Callable[[Data], object]) -> Data:
    data = copy.deepcopy(flights())
    change(data)
    return data


def problems(data: object) -> list[str]:
    with pytest.raises(InvalidPipelineError) as raised:
        pipeline_from_dict(data)
    return [str(problem) for problem in raised.value.problems]


def test_the_designs_pipeline() -> None:
    pipeline = pipeline_from_dict(flights())

    source = pipeline.sources["flights"]
    assert (source.connector, source.config.model_dump()["topic"]) == ("kafka", "123")
    assert source.columns.names == ("origin", "dep_delay", "scheduled", "legs", "plane")
    assert not source.columns.field("origin").nullable
    scheduled = source.columns.field("scheduled").type
    assert isinstance(scheduled, Timestamp) and scheduled.unit == "s"
    legs = source.columns.field("legs").type
    assert isinstance(legs, ListOf) and isinstance(legs.inner, Struct)
    assert not legs.inner.fields[1].nullable
    plane = source.columns.field("plane").type
    assert isinstance(plane, Struct) and plane.fields[1].type == ListOf(Primitive.INT32, nullable=False)
    assert source.time.out_of_orderness_ms == 1_800_000
    assert source.on_error == DeadLetter(topic="bad-flights")

    assert pipeline.steps["departed"].verb == Filter(predicate="dep_delay is not null")
    assert pipeline.steps["departed"].on_error is OnError.DIVERT
    hourly = pipeline.steps["hourly"]
    assert hourly.verb == Aggregate(
        key_by=("origin",),
        window=Tumbling(size_ms=3_600_000),
        aggregate=(("flights", "count(*)"), ("worst", "max(dep_delay)")),
    )
    assert (hourly.inputs, hourly.verb_name, hourly.partition) == (
        ("departed",),
        "aggregate",
        HashBy(columns=("origin",)),
    )
    sink = pipeline.sinks["delays"]
    assert sink.format is not None and (sink.format.name, sink.format.options) == ("csv", {"delimiter": ";"})
    assert (hourly.parallelism, pipeline.parallelism) == (None, 2)
    assert (pipeline.batch.max_delay_ms, pipeline.batch.max_rows) == (5, 32_768)


def every_verb() -> Data:
    return {
        "name": "all",
        "max_parallelism": 16,
        "batch": {"max_delay": "1s", "max_rows": 7},
        "checkpoint": {"interval": "none", "mode": "at-least-once", "storage": "file:///tmp/x"},
        "state": {"backend": "memory"},
        "restart": {"strategy": "failure-rate", "failures": 3, "per": "1m"},
        "sources": {
            "a": {
                "generator": {"rows": 3},
                "schema": {"x": "int64", "tags": "[string]", "at": "timestamp"},
                "time": {"value": "at", "idle_after": "5s", "max_drift": "1h"},
                "parallelism": 2,
            }
        },
        "steps": {
            "b": {"from": "a", "select": ["x", "tags", "at"], "partition": "rebalance"},
            "c": {"from": "b", "select": {"y": "x + 1", "tags": "tags"}},
            "d": {"from": "c", "with_columns": {"z": "y * 2"}},
            "e": {"from": "d", "drop": ["z"]},
            "f": {"from": "e", "rename": {"y": "x"}},
            "g": {"from": "f", "explode": "tags"},
            "h": {"union": ["g", "g2"]},
            "g2": {"from": "f", "explode": "tags", "on_error": "skip", "parallelism": 4},
            "i": {"from": "h", "map": {"function": "pkg.mod:fn", "schema": {"x": "int64", "tags": "string"}}},
            "j": {"from": "i", "aggregate": {"n": "count(*)"}},
            "k": {
                "from": "i",
                "key_by": ["x"],
                "window": {"sliding": "10m", "every": "1m", "offset": "30s"},
                "aggregate": {"n": "first(tags)"},
                "allowed_lateness": "1h",
                "lateness": "operator",
                "order": "arrival",
            },
            "l": {
                "from": "i",
                "window": {"cumulate": "1d", "every": "1h", "timezone": "Europe/Berlin"},
                "aggregate": {"n": "count(*)"},
            },
        },
        "sinks": {"out": {"from": "k.late", "print": {"limit": 3}, "partition": "global", "parallelism": 1}},
        "tests": [
            {
                "name": "one",
                "inputs": {"a": [{"x": "1", "$partition": "2"}, {"x": None}]},
                "outputs": {"j": [{"n": "2"}]},
            }
        ],
    }


@pytest.mark.parametrize("data", [flights(), every_verb()], ids=["flights", "every_verb"])
def test_round_trip(data: Data) -> None:
    pipeline = pipeline_from_dict(data)
    written = pipeline.to_dict()

    again = pipeline_from_dict(written)

    assert again == pipeline
    assert again.to_dict() == written
    scheduled = again.sources.get("flights")
    assert scheduled is None or "timestamp(s)" in str(written["sources"]["flights"]["schema"])


def test_verbs_of_every_kind() -> None:
    pipeline = pipeline_from_dict(every_verb())
    assert pipeline.steps["b"].verb == Select(columns=(("x", '"x"'), ("tags", '"tags"'), ("at", '"at"')))
    assert pipeline.steps["b"].partition is Route.REBALANCE
    assert pipeline.steps["h"].verb == Union(inputs=("g", "g2"))
    assert pipeline.steps["h"].inputs == ("g", "g2")
    assert isinstance(pipeline.steps["i"].verb, Map)
    sliding = pipeline.steps["k"].verb
    assert isinstance(sliding, Aggregate)
    assert sliding.window == Sliding(size_ms=600_000, every_ms=60_000, offset_ms=30_000)
    cumulate = pipeline.steps["l"].verb
    assert isinstance(cumulate, Aggregate)
    assert cumulate.window == Cumulate(size_ms=86_400_000, every_ms=3_600_000, timezone="Europe/Berlin")
    assert pipeline.checkpoint.interval_ms is None
