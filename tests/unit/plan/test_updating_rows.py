"""A verb reads rows that update each other only if it says so; the refusal names the verbs that do."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.errors import InvalidPipelineError
from headrace.plan.logical import plan_logical
from headrace.spec.reading.read import pipeline_from_dict
from headrace.spec.verbs.table import VERBS

FORMS: dict[str, object] = {
    "filter": "n > 1",
    "select": ["k", "n"],
    "with_columns": {"m": "n + 1"},
    "drop": ["n"],
    "rename": {"k": "key"},
    "explode": "tags",
    "union": ["steady", "totals"],
    "map": {"function": "m.n:f", "schema": {"k": "string"}},
    "aggregate": {"all": "sum(n)"},
}
"""Verb -> its value, over the columns k (the key), n and tags."""


def problems(verb: str) -> list[tuple[str, str, str | None]]:
    steps: dict[str, Any] = {
        "totals": {"from": "rows", "key_by": ["k"], "aggregate": {"n": "count(*)", "tags": "last(tags)"}},
        "steady": {"from": "rows", "with_columns": {"n": "1"}},
        "step": {verb: FORMS[verb]} if VERBS[verb].NAMES_INPUTS else {"from": "totals", verb: FORMS[verb]},
    }
    source = {"memory": {"name": "rows"}, "schema": {"k": "string", "tags": "[string]"}}
    sink = {"from": "rows", "memory": {"name": "out"}}
    data = {"name": "p", "sources": {"rows": source}, "steps": steps, "sinks": {"out": sink}}
    try:
        plan_logical(pipeline_from_dict(data))
    except InvalidPipelineError as error:
        return [(".".join(each.path), each.message, each.remedy) for each in error.problems]
    return []


def test_every_verb_is_tried() -> None:
    assert list(FORMS) == list(VERBS)


@pytest.mark.parametrize("verb", [name for name, model in VERBS.items() if model.TAKES_UPDATES])
def test_a_verb_that_takes_updates_is_planned(verb: str) -> None:
    assert problems(verb) == []


@pytest.mark.parametrize("verb", [name for name, model in VERBS.items() if not model.TAKES_UPDATES])
def test_any_other_verb_refuses_them(verb: str) -> None:
    ((path, message, remedy),) = problems(verb)
    assert path == (f"steps.step.{verb}.1" if verb == "union" else f"steps.step.{verb}")
    assert message == (
        f"the rows of totals update each other by (k), and {verb} would take a row and its replacement for two"
    )
    assert remedy is not None
    assert remedy.startswith("read updating rows with filter, select, with_columns, drop, rename")
