"""Late rows keep their place in the total order: what reads a `late` output may be order-sensitive, or fail."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from headrace.core.errors import DataError
from headrace.local.engine.rows_run import resized, run_on_rows
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.read import pipeline_from_dict

SHAPES = [(1, 1), (7, 1), (1, 2), (7, 5), (1000, 5)]
WINDOW = {"from": "rows", "key_by": ["key"], "window": {"tumbling": "10ms"}, "aggregate": {"n": "count(*)"}}
FIRST = {"key_by": ["key"], "aggregate": {"first": "first(i)", "last": "last(i)"}}


def pipeline(steps: dict[str, Any], last: str) -> Pipeline:
    source = {
        "memory": {"name": "unused"},
        "schema": {"key": "string", "i": "int64", "ts": "timestamp"},
        "time": {"column": "ts"},
    }
    sink = {"from": last, "memory": {"name": "unused"}}
    return pipeline_from_dict({"name": "p", "sources": {"rows": source}, "steps": steps, "sinks": {"out": sink}})


def rows() -> pl.DataFrame:
    """Times go round and round: about half of the rows are late."""
    count = 60
    times = pl.Series([i * 7 % 50 + i // 4 for i in range(count)], dtype=pl.Int64)
    return pl.DataFrame(
        {
            "key": [f"k{i % 4}" for i in range(count)],
            "i": list(range(count)),
            "ts": (times * 1000).cast(pl.Datetime("us", "UTC")),
            "$partition": [i % 3 for i in range(count)],
        }
    )


def results(flow: Pipeline, shape: tuple[int, int]) -> list[tuple[object, ...]]:
    run = run_on_rows(resized(flow, batch_rows=shape[0], parallelism=shape[1]), {"rows": rows()})
    return sorted(run.outputs["out"].latest().rows())


@pytest.mark.parametrize(
    ("steps", "last"),
    [
        ({"w": WINDOW, "f": {"from": "w.late", **FIRST}}, "f"),
        ({"w": WINDOW, "both": {"union": ["w.late", "rows"]}, "f": {"from": "both", **FIRST}}, "f"),
    ],
    ids=["late", "union"],
)
def test_first_and_last_of_late_rows(steps: dict[str, Any], last: str) -> None:
    flow = pipeline(steps, last)
    expected = results(flow, SHAPES[0])
    assert len(expected) == 4
    for shape in SHAPES[1:]:
        assert results(flow, shape) == expected, shape


def test_a_late_row_that_fails_names_its_source_position() -> None:
    step = {"from": "w.late", "with_columns": {"c": "cast(key as int64)"}}
    with pytest.raises(DataError, match=r"input row|offset"):
        results(pipeline({"w": WINDOW, "cast": step}, "cast"), (7, 2))
