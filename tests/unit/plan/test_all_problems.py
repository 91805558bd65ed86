"""Planning reports every mistake whose judgement needs no guess: of each node with known inputs, all of them."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.errors import InvalidPipelineError
from headrace.plan.logical import plan_logical
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.read import pipeline_from_dict

SOURCE = {
    "files": {"path": "in.csv"},
    "format": "csv",
    "schema": {"k": "string", "x": "int64", "ts": "timestamp"},
    "time": {"column": "ts"},
}


def _pipeline(steps: dict[str, Any], *, reads: str, source: dict[str, Any] | None = None) -> Pipeline:
    sink = {"from": reads, "print": {}}
    data = {"name": "p", "sources": {"s": {**SOURCE, **(source or {})}}, "steps": steps, "sinks": {"out": sink}}
    return pipeline_from_dict(data)


def _paths(pipeline: Pipeline) -> list[str]:
    with pytest.raises(InvalidPipelineError) as raised:
        plan_logical(pipeline)
    return [".".join(problem.path) for problem in raised.value.problems]


def test_each_expression_of_a_step_is_checked() -> None:
    columns = {"p": "xx + 1", "q": "yy || 'a'", "r": "x + 1", "z": "x + k"}

    paths = _paths(_pipeline({"a": {"from": "s", "with_columns": columns}}, reads="a"))

    assert paths == ["steps.a.with_columns.p", "steps.a.with_columns.q", "steps.a.with_columns.z"]


def test_keys_window_and_aggregates_are_checked_side_by_side() -> None:
    step = {
        "from": "s",
        "key_by": ["kk", "k", "xx"],
        "window": {"tumbling": "1h"},
        "aggregate": {"n": "count(*)", "a": "sum(y)", "b": "sum(k)"},
        "partition": "rebalance",
    }

    assert _paths(_pipeline({"a": step}, reads="a")) == [
        "steps.a.key_by.0",
        "steps.a.key_by.2",
        "steps.a.partition",
        "steps.a.aggregate.a",
        "steps.a.aggregate.b",
    ]


def test_a_filter_gives_its_input_so_the_nodes_below_are_checked() -> None:
    steps = {
        "a": {"from": "s", "filter": "amout > 10"},
        "b": {"from": "a", "filter": "x + 1"},
        "c": {"from": "b", "key_by": ["county"], "aggregate": {"n": "sum(amont)"}},
    }

    assert _paths(_pipeline(steps, reads="c")) == [
        "steps.a.filter",
        "steps.b.filter",
        "steps.c.key_by.0",
        "steps.c.aggregate.n",
    ]


def test_a_node_below_one_with_unknown_columns_is_not_judged() -> None:
    steps = {
        "a": {"from": "s", "select": {"amount": "xx"}},
        "b": {"from": "a", "filter": "amount > 10 and nothing_like_it"},
        "c": {"from": "s", "drop": ["q", "x", "r"]},
        "d": {"from": "s", "rename": {"q": "z", "r": "w"}},
    }

    assert _paths(_pipeline(steps, reads="b")) == [
        "steps.a.select.amount",
        "steps.c.drop.0",
        "steps.c.drop.2",
        "steps.d.rename.q",
        "steps.d.rename.r",
    ]


def test_columns_of_a_source_are_known_even_if_its_time_is_wrong() -> None:
    step = {"from": "s", "window": {"tumbling": "1h"}, "aggregate": {"n": "sum(y)"}}

    paths = _paths(_pipeline({"a": step}, reads="a", source={"time": {"column": "tz"}}))

    assert paths == ["sources.s.time.column", "steps.a.aggregate.n"]


def test_side_outputs_of_a_broken_filter_are_known() -> None:
    steps = {
        "a": {"from": "s", "filter": "cast(k as int64) > q", "on_error": "divert"},
        "b": {"from": "a.bad", "filter": "reason is not null"},
        "c": {"from": "a.bad", "filter": "raisin is not null"},
    }

    assert _paths(_pipeline(steps, reads="a")) == ["steps.a.filter", "steps.c.filter"]
