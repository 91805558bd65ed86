"""What of a plan is watched: units of time columns, filters, and the sources behind a window."""

from __future__ import annotations

from typing import Any

from headrace.coordinator.figures.watched_plan import WatchedSource, watched_plan
from headrace.execution.planning import plan_pipeline

GENERATOR = {"rate": 1, "columns": {"n": {"sequence": {}}}}
PIPELINE: dict[str, Any] = {
    "name": "watched",
    "parallelism": 2,
    "sources": {
        "plain": {
            "generator": GENERATOR,
            "schema": {"n": "int64", "at": "timestamp(s) not null"},
            "time": {"column": "at", "out_of_orderness": "5s", "idle_after": "30s"},
        },
        "computed": {
            "generator": GENERATOR,
            "schema": {"n": "int64", "at": "timestamp not null"},
            "time": {"value": "date_trunc('day', at)"},
        },
        "timeless": {"generator": GENERATOR, "schema": {"n": "int64"}},
    },
    "steps": {
        "some": {"from": "plain", "filter": "n > 0"},
        "both": {"union": ["some", "computed"]},
        "hourly": {"from": "both", "key_by": ["n"], "window": {"tumbling": "1h"}, "aggregate": {"c": "count(*)"}},
        "kept": {"from": "timeless", "filter": "n > 1"},
    },
    "sinks": {
        "out": {"from": "hourly", "print": {}, "format": "json"},
        "rest": {"from": "kept", "print": {}, "format": "json"},
    },
}


def test_states_that_nothing_drops() -> None:
    assert watched_plan(plan_pipeline(PIPELINE)).growing == ()
    running = {"from": "both", "key_by": ["n"], "aggregate": {"c": "count(*)"}}
    one_group = {"from": "kept", "aggregate": {"c": "count(*)"}}
    steps = {**PIPELINE["steps"], "hourly": running, "whole": one_group}
    sinks = {**PIPELINE["sinks"], "all": {"from": "whole", "print": {}, "format": "json"}}
    found = watched_plan(plan_pipeline({**PIPELINE, "steps": steps, "sinks": sinks}))
    assert found.growing == (("hourly", "groups"),)
    assert found.on_disk
    assert not watched_plan(plan_pipeline({**PIPELINE, "state": {"backend": "memory"}})).on_disk


def test_what_is_watched() -> None:
    found = watched_plan(plan_pipeline(PIPELINE))
    assert set(found.sources) == {
        WatchedSource("plain", True, "at", "s", 5_000, 30_000, task="plain"),
        WatchedSource("computed", True, task="computed"),
        WatchedSource("timeless", task="timeless"),
    }
    assert set(found.filters) == {"some", "kept"}
    windows = dict(found.windows or {})
    assert {node: set(sources) for node, sources in windows.items()} == {"hourly": {"plain", "computed"}}
    assert dict(found.gates) == {"hourly": "both"}


def test_a_window_behind_single_inputs_has_no_gate() -> None:
    steps = {"hourly": {**PIPELINE["steps"]["hourly"], "from": "plain"}}
    sinks = {"out": PIPELINE["sinks"]["out"]}
    assert not watched_plan(plan_pipeline({**PIPELINE, "steps": steps, "sinks": sinks})).gates
