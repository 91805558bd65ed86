"""What a plan says of a source's event time."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.plan.logical import plan_logical
from headrace.plan.physical import RecordTime, RowTime, SourceSpec, TimeSpec
from headrace.spec.reading.read import pipeline_from_dict


def planned(time: dict[str, Any]) -> TimeSpec:
    source = {
        "kafka": {"brokers": "b:1", "topic": "t"},
        "format": "json",
        "schema": {"at": "timestamp", "n": "int64"},
        "time": {"out_of_orderness": "2s", "idle_after": "3s", "max_drift": "10m", **time},
    }
    windows = {"from": "s", "key_by": ["n"], "window": {"tumbling": "1h"}, "aggregate": {"rows": "count(*)"}}
    data = {
        "name": "p",
        "sources": {"s": source},
        "steps": {"hourly": windows},
        "sinks": {"out": {"from": "hourly", "print": {}}},
    }
    nodes = plan_logical(pipeline_from_dict(data)).nodes
    spec = next(node.spec for node in nodes if node.name == "s")
    assert isinstance(spec, SourceSpec)
    return spec.time


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ({"column": "at"}, RowTime("at", 2000, 3000, 600_000)),
        ({"value": "coalesce(at, at)"}, RowTime("coalesce(at, at)", 2000, 3000, 600_000)),
        ({}, RecordTime(2000, 3000, 600_000)),
    ],
)
def test_a_sources_time_carries_how_far_its_partitions_may_drift(time: dict[str, Any], expected: TimeSpec) -> None:
    assert planned(time) == expected
