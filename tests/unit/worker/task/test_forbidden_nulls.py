"""Rows that hold NULL where their column's type has none."""

from __future__ import annotations

import polars as pl
import pytest

from headrace.core.types import schema_of
from headrace.worker.task.ingest import forbidden_nulls, restricts


@pytest.mark.parametrize(
    ("dtype", "values", "wrong"),
    [
        ("int64", [1, None], []),
        ("int64 not null", [1, None, 2, None], [1, 3]),
        ("[int64]", [[None], None], []),
        ("[int64] not null", [[None], None], [1]),
        ("[int64 not null]", [[1, 2], [], None, [1, None], [None]], [3, 4]),
        ("[[int64 not null]]", [[[1], []], [None, [None]], None, [[2], [3, None]]], [1, 3]),
        ("{b: int64 not null}", [{"b": 1}, {"b": None}, None], [1]),
        ("[{b: int64 not null}]", [[{"b": 1}, None], [], [{"b": None}], None], [2]),
        ("{b: [int64 not null], c: string}", [{"b": [None], "c": None}, {"b": None, "c": None}, None], [0]),
    ],
)
def test_they_are_found_also_inside_of_lists_and_structs(dtype: str, values: list[object], wrong: list[int]) -> None:
    schema = schema_of({"a": dtype})
    (field,) = schema.fields
    mask = forbidden_nulls(pl.Series("a", values, dtype=schema.polars()["a"]), field.type, nullable=field.nullable)
    assert ([] if mask is None else mask.nonzero()[0].tolist()) == wrong
    assert restricts(field.type, nullable=field.nullable) == ("not null" in dtype)
