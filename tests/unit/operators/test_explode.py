"""Explode against a plain loop; the place within the source row survives nesting."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.batch import O_INDEX
from headrace.core.errors import DataError, UserError
from headrace.core.types import schema_of
from headrace.operators.explode import ExplodeConfig
from support.oracles.collector import run_operator

LISTS = st.none() | st.lists(st.none() | st.integers(0, 9), max_size=4)


@given(st.lists(LISTS, min_size=1, max_size=8), st.booleans())
def test_one_row_for_each_element(lists: list[list[int | None] | None], ordered: bool) -> None:
    schema = schema_of({"id": "int64", "xs": "[int64]", "z": "string"})
    frame = pl.DataFrame({"id": range(len(lists)), "xs": lists, "z": "z", "__ts": 0}, schema_overrides=schema.polars())
    if ordered:
        frame = frame.with_columns(pl.lit(0, dtype=pl.Int64).alias(O_INDEX))
    config = ExplodeConfig("e", "xs", schema)
    assert str(config.output()) == "id: int64, xs: int64, z: string"
    out = run_operator(config, frame)
    expected = [(number, element) for number, values in enumerate(lists) for element in values or ()]
    assert [(row["id"], row["xs"]) for row in out.rows] == expected
    if expected:
        assert out.frame.columns == frame.columns
        assert out.frame.schema["xs"] == pl.Int64
    if ordered:
        assert [row[O_INDEX] for row in out.rows] == [n for values in lists for n in range(len(values or ()))]


@given(st.lists(st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=3), min_size=1, max_size=5))
def test_nested_places_are_unique_and_in_order(nested: list[list[list[int]]]) -> None:
    schema = schema_of({"id": "int64", "xs": "[[int64]]"})
    frame = pl.DataFrame(
        {"id": range(len(nested)), "xs": nested, O_INDEX: [0] * len(nested)},
        schema={**schema.polars(), O_INDEX: pl.Int64()},
    )
    outer = ExplodeConfig("outer", "xs", schema)
    once = run_operator(outer, frame)
    inner = ExplodeConfig("inner", "xs", outer.output())
    # single rows: what was one source row need not travel together
    twice = run_operator(inner, *(once.frame.iter_slices(1) if once.batches else ()))
    assert [(row["id"], row["xs"]) for row in twice.rows] == [
        (number, x) for number, lists in enumerate(nested) for values in lists for x in values
    ]
    places = [(row["id"], row[O_INDEX]) for row in twice.rows]
    assert places == sorted(set(places))


def test_an_absurd_list_is_refused_where_order_counts() -> None:
    schema = schema_of({"xs": "[bool]"})
    frame = pl.DataFrame({"xs": [[True] * (1 << 21)], O_INDEX: [0]})
    with pytest.raises(DataError, match="out of range"):
        run_operator(ExplodeConfig("e", "xs", schema), frame)
    assert run_operator(ExplodeConfig("e", "xs", schema), frame.drop(O_INDEX)).frame.height == 1 << 21


def test_not_null_follows_the_element() -> None:
    schema = schema_of({"xs": "[int64 not null]", "n": "int64"})
    assert str(ExplodeConfig("e", "xs", schema).output()) == "xs: int64 not null, n: int64"
    with pytest.raises(UserError, match=r"column 'n' is int64, not a list\n.*list columns: xs"):
        ExplodeConfig("e", "n", schema).output()
    with pytest.raises(UserError, match=r"unknown column 'x'\n.*did you mean 'xs'"):
        ExplodeConfig("e", "x", schema_of({"xs": "[int64]"})).output()
