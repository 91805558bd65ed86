"""The pipeline that `headrace dev` runs: its sinks show the first rows of a second, and their outputs can be read."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.local.dev.shown_run import RowBudget, _Screen, _shown
from headrace.local.engine.compile import compile_pipeline
from headrace.spec.reading.read import pipeline_from_dict

KAFKA: dict[str, Any] = {"kafka": {"brokers": "b:1", "topic": "t"}, "format": "json"}


@pytest.mark.parametrize(
    ("write", "readers"),
    [
        (False, {"out": "s", "kept": "short", "more_bad_shown_0": "more.bad", "more": "s"}),
        (
            True,
            {
                "out": "s",
                "kept": "short",
                "more": "s",
                "out_shown_0": "s",
                "kept_shown_0": "short",
                "more_shown_0": "s",
                "more_bad_shown_0": "more.bad",
            },
        ),
    ],
)
def test_sinks_keep_their_outputs(write: bool, readers: dict[str, str]) -> None:
    model = pipeline_from_dict(
        {
            "name": "p",
            "sources": {"s": KAFKA | {"schema": {"n": "int64"}}},
            "steps": {"short": {"from": "out.bad", "select": ["reason"]}},
            "sinks": {
                "out": KAFKA | {"from": "s", "on_error": "divert"},
                "kept": KAFKA | {"from": "short"},
                "more": KAFKA | {"from": "s", "on_error": {"dead_letter": "dead"}},
            },
        }
    )
    shown = _shown(model, _Screen(1), write=write)
    compile_pipeline(shown)
    assert {name: sink.from_ for name, sink in shown.sinks.items()} == readers
    assert {sink.connector for name, sink in shown.sinks.items() if not write or "_shown_" in name} == {"collect"}


def test_a_budget_is_for_a_second() -> None:
    budget = RowBudget(3)
    assert [budget.take(2, 10.0), budget.take(2, 10.5), budget.take(5, 10.9)] == [2, 1, 0]
    assert budget.settle(10.9) == 0, "the second is not over"
    assert budget.settle(11.0) == 6
    assert budget.settle(11.1) == 0
    assert budget.take(4, 11.2) == 3
    assert budget.left_out == 1
