"""Small plans: two sources `one` and `two`, and steps that a test gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.execution.planning import JobPlans
from headrace.plan.physical import PhysicalPlan

COLUMNS = {"id": {"sequence": {}}, "key": {"choice": ["a", "b"]}}
SOURCE = {
    "generator": {"rows": 10, "partitions": 4, "columns": COLUMNS},
    "schema": {"id": "int64 not null", "key": "string not null"},
}
COUNT = {"key_by": ["key"], "aggregate": {"n": "count(*)"}}


AT = {"time": {"start": "2024-03-01T00:00:00Z", "step": "1s"}}
TIMED = {
    "generator": {"rows": 10, "partitions": 4, "columns": {**COLUMNS, "at": AT}},
    "schema": {"id": "int64 not null", "key": "string not null", "at": "timestamp not null"},
    "time": {"column": "at"},
}


def plan_of(steps: dict[str, Any], last: str, parallelism: int = 3, source: Mapping[str, Any] = SOURCE) -> PhysicalPlan:
    """With a sink `out` behind the step `last`, and `rest` behind `two`. `source`: what `one` and `two` are."""
    sinks = {"out": {"from": last, "memory": {"name": "out"}}, "rest": {"from": "two", "memory": {"name": "rest"}}}
    document = {"name": "p", "sources": {"one": source, "two": source}, "steps": steps, "sinks": sinks}
    return JobPlans(document).plan(parallelism)
