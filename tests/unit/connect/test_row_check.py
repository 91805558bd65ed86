from __future__ import annotations

import polars as pl
import pytest

from headrace.connect.row_check import ValueCheck, columns_holding
from headrace.core.batch import TS
from headrace.core.errors import DataError
from headrace.core.types import Primitive, schema_of

SCHEMA = schema_of({"n": "int64", "text": "string", "texts": "[string]", "inside": "{a: [string], b: int64}"})


def negative(values: pl.Series) -> bool:
    return values.dtype == pl.Int64 and bool((values < 0).any())


CHECK = ValueCheck("out", ("n", "inside"), negative, "is below zero", "make it larger")


def rows(n: list[int | None], b: list[int | None]) -> pl.DataFrame:
    inside = [None if each is None else {"a": ["x"], "b": each} for each in b]
    types = SCHEMA.polars()
    return pl.DataFrame({"n": n, "inside": inside}, {"n": types["n"], "inside": types["inside"]}).with_columns(
        pl.lit(5).alias(TS)
    )


def test_columns_that_hold_a_type_anywhere() -> None:
    assert columns_holding(SCHEMA, lambda dtype: dtype is Primitive.STRING) == ("text", "texts", "inside")
    assert columns_holding(SCHEMA, lambda dtype: dtype is Primitive.BOOL) == ()


def test_values_inside_are_looked_at_too() -> None:
    CHECK.require(rows([1, None], [0, None]))
    with pytest.raises(DataError) as raised:
        CHECK.require(rows([1, 2, 3], [0, -7, -8]))
    assert raised.value.node == "out"
    assert "column inside is below zero: {'n': 2, 'inside': {'a': ['x'], 'b': -7}}" in str(raised.value)
    assert "make it larger" in str(raised.value)
