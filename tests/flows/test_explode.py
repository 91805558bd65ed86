"""A NULL or empty list gives no row, whether or not a later step asks for the order of rows; a NULL element is one."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.read import pipeline_from_dict
from headrace.testing import run_pipeline

ROWS: list[dict[str, Any]] = [
    {"k": 1, "l": [1, 2]},
    {"k": 2, "l": []},
    {"k": 3, "l": None},
    {"k": 4},
    {"k": 5, "l": [None, 3]},
]
EXPLODED = {"from": "rows", "explode": "l"}
ORDERED = {"from": "x", "key_by": ["k"], "aggregate": {"first": "first(l)", "n": "count(*)"}}


def _pipeline(steps: dict[str, Any], last: str) -> Pipeline:
    source = {"memory": {"name": "unused"}, "schema": {"k": "int64", "l": "[int64]"}}
    sink = {"from": last, "memory": {"name": "unused"}}
    return pipeline_from_dict({"name": "p", "sources": {"rows": source}, "steps": steps, "sinks": {"out": sink}})


@pytest.mark.parametrize("batch_rows", [1, 3, 100])
def test_no_row_for_no_element(batch_rows: int) -> None:
    results = run_pipeline(_pipeline({"x": EXPLODED}, "x"), {"rows": ROWS}, batch_rows=batch_rows)
    found = [(row["k"], row["l"]) for row in results.rows("out")]
    assert sorted(found, key=str) == [(1, 1), (1, 2), (5, 3), (5, None)]


@pytest.mark.parametrize("batch_rows", [1, 3, 100])
def test_no_row_for_no_element_where_order_counts(batch_rows: int) -> None:
    flow = _pipeline({"x": EXPLODED, "f": ORDERED}, "f")
    results = run_pipeline(flow, {"rows": ROWS}, batch_rows=batch_rows, outputs=["x"])
    assert {row["k"] for row in results.rows("x")} == {1, 5}
    assert {(row["k"], row["n"]) for row in results.rows("out")} >= {(1, 2), (5, 2)}
    assert {row["k"] for row in results.rows("out")} == {1, 5}
