from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.row_check import ValueCheck, columns_holding, failing_rows, raise_refused
from headrace.core.batch import TS
from headrace.core.errors import DataError
from headrace.core.types import Primitive, schema_of

SCHEMA = schema_of({"n": "int64", "text": "string", "texts": "[string]", "inside": "{a: [string], b: int64}"})


def negative(values: pl.Series) -> bool:
    return values.dtype == pl.Int64 and bool((values < 0).any())


CHECK = ValueCheck(("n", "inside"), negative, "is below zero", "make it larger")


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
    assert CHECK.refused(rows([1, None], [0, None])) == {}
    refused = rows([1, 2, 3], [0, -7, -8])
    assert list(CHECK.refused(refused)) == [1, 2]
    with pytest.raises(DataError) as raised:
        raise_refused("out", refused, CHECK.refused(refused))
    assert raised.value.node == "out"
    assert "column inside is below zero: {'n': 2, 'inside': {'a': ['x'], 'b': -7}}" in str(raised.value)
    assert "make it larger" in str(raised.value)


@given(st.integers(0, 40), st.sets(st.integers(0, 39)))
def test_rows_that_fail_alone_are_found_in_order_and_the_others_pass_once(count: int, bad: set[int]) -> None:
    passed: list[int] = []

    def tried(begin: int, length: int) -> str | None:
        rows = range(begin, begin + length)
        if bad.isdisjoint(rows):
            passed.extend(rows)
            return None
        return f"one of {list(rows)}"

    expected = {row: f"one of {[row]}" for row in sorted(bad) if row < count}
    assert list(failing_rows(count, tried).items()) == list(expected.items())
    assert passed == [row for row in range(count) if row not in bad]
