"""Whatever a file or a mapping holds: a pipeline, or problems that are ours, with places."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headrace.core.errors import InvalidPipelineError, UserError
from headrace.plan.every_problem import every_problem
from headrace.spec.reading.load import PartlyReadError, load_text
from headrace.spec.reading.read import pipeline_from_dict
from support.suite.properties import weighted

pytestmark = pytest.mark.usefixtures("own_connectors")

NO_HEALTH_CHECKS = list(HealthCheck)

FILE = """\
name: p
x-a: &a {brokers: b}
connections: {main: {kafka: {brokers: b}}}
sources:
  a:
    kafka: {<<: *a, topic: t}
    format: {json: {header: no}}
    schema: {x: int64, t: timestamp, l: [string not null], s: {n: "decimal(3,1)"}}
    time: {column: t, out_of_orderness: 1m}
    on_error: {dead_letter: d}
steps:
  b:
    from: a
    with_columns: {y: "round(x, 2)"}
  c:
    from: b
    key_by: [x]
    window: {sliding: 10m, every: 1m}
    aggregate:
      n: count(*)  # all
  u: {union: [a, b]}
sinks:
  o: {from: c, print: {}, partition: {hash: [x]}}
  k: {from: c.late, kafka: {use: main, topic: "${T:-t}"}, format: csv}
tests:
  - {name: t, inputs: {a: [{x: 1, l: [q]}]}, outputs: {c: [{n: 1}]}}
"""
PIECES = (
    "",
    ":",
    ": ",
    "-",
    "- ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "'",
    '"',
    "#",
    " #",
    "\n",
    "\t",
    "&",
    "*",
    "!",
    "|",
    ">",
    "%",
)
WORDS = (
    "${",
    "${X}",
    "<<: ",
    "~",
    "null",
    "a",
    "x",
    "0",
    "-1",
    "é",
    "\x85",
    "\ufeff",
    "? ",
    "---\n",
    "from: b\n",
    "\r",
)
EDIT = st.tuples(st.integers(0, len(FILE)), st.integers(0, 12), st.sampled_from(PIECES + WORDS))
EDITS = st.lists(EDIT, min_size=1, max_size=3)


def edited(edits: list[tuple[int, int, str]]) -> str:
    text = FILE
    for at, length, piece in edits:
        text = text[:at] + piece + text[at + length :]
    return text


def test_the_file_is_fine() -> None:
    assert load_text(FILE, "p.yaml", environ={}).pipeline.name == "p"


@settings(weighted(2), suppress_health_check=NO_HEALTH_CHECKS)
@given(EDITS)
def test_any_edit_of_a_file(edits: list[tuple[int, int, str]]) -> None:
    try:
        loaded = load_text(edited(edits), "p.yaml", environ={})
    except PartlyReadError as error:
        assert all(problem.location is not None and problem.message for problem in every_problem(error).problems)
    except InvalidPipelineError as error:
        assert all(problem.location is not None and problem.message for problem in error.problems)
    except UserError as error:
        assert error.message
    else:
        assert pipeline_from_dict(loaded.pipeline.to_dict()) == loaded.pipeline


TEXTS = st.sampled_from(["", "a", "1h", "fail", "b.bad"])
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 9), st.floats(), st.sampled_from(["", "a", "1h", "fail", "b.bad"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "x", "kafka"]), inner)),
    max_leaves=5,
)


def paths_of(data: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(found for key, value in children for found in paths_of(value, (*path, key)))]


WHOLE: dict[str, Any] = {
    "name": "p",
    "batch": {"max_rows": 1},
    "checkpoint": {"interval": "1s"},
    "state": {"backend": "memory"},
    "restart": {"strategy": "none"},
    "connections": {"main": {"kafka": {"brokers": "b"}}},
    "sources": {
        "a": {
            "kafka": {"use": "main", "topic": "t"},
            "format": {"json": {}},
            "schema": {"x": "int64", "l": ["string"], "s": {"n": "date"}},
            "time": {"column": "x"},
            "on_error": {"dead_letter": "d"},
        }
    },
    "steps": {
        "b": {"from": "a", "select": ["x"], "partition": {"hash": ["x"]}},
        "c": {"from": "b", "key_by": ["x"], "window": {"tumbling": "1h"}, "aggregate": {"n": "count(*)"}},
        "d": {"from": "a", "map": {"function": "a:b", "schema": {"x": "int64"}}},
        "e": {"union": ["b", "c"]},
        "f": {"from": "a", "rename": {"x": "y"}},
        "g": {"from": "f", "drop": ["y"]},
    },
    "sinks": {"o": {"from": "c.late", "print": {}}},
    "tests": [{"name": "t", "inputs": {"a": [{"x": 1}]}, "outputs": {"c": []}}],
}
PATHS = [path for path in paths_of(WHOLE) if path]


def replaced(data: Any, path: tuple[Any, ...], value: object) -> Any:
    if not path:
        return value
    if isinstance(data, dict):
        return {key: replaced(item, path[1:], value) if key == path[0] else item for key, item in data.items()}
    return [replaced(item, path[1:], value) if at == path[0] else item for at, item in enumerate(data)]


@settings(weighted(2), suppress_health_check=NO_HEALTH_CHECKS)
@given(st.sampled_from(PATHS), VALUES)
@example(("name",), "p")
def test_any_value_anywhere(path: tuple[Any, ...], value: object) -> None:
    try:
        pipeline = pipeline_from_dict(replaced(WHOLE, path, value))
    except InvalidPipelineError as error:
        assert all(problem.message for problem in error.problems)
    else:
        assert pipeline_from_dict(pipeline.to_dict()) == pipeline
