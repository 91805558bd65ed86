"""Filter against a plain loop, on append and on updating edges."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.batch import OP
from headrace.core.errors import DataError, ExpressionError
from headrace.core.types import schema_of
from headrace.operators.filter import FilterConfig
from headrace.operators.operator import OnError
from support.oracles.collector import run_operator

SCHEMA = schema_of({"k": "string", "x": "int64", "t": "string"})


def batch(rows: list[tuple[str, int | None, str | None]]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema=SCHEMA.polars(), orient="row")
    return frame.with_columns(pl.Series("__ts", range(len(rows)), dtype=pl.Int64))


ROWS = st.lists(
    st.tuples(st.sampled_from("abc"), st.none() | st.integers(-3, 3), st.none() | st.sampled_from(["1", "2", "no"])),
    min_size=1,
    max_size=20,
)


@given(ROWS)
def test_append_keeps_rows_that_pass(rows: list[tuple[str, int | None, str | None]]) -> None:
    out = run_operator(FilterConfig("f", "x > 0", SCHEMA), batch(rows))
    kept = [number for number, (_, x, _) in enumerate(rows) if x is not None and x > 0]
    assert [row["__ts"] for row in out.rows] == kept
    assert out.frame.columns == ["k", "x", "t", "__ts"] if kept else not out.batches


@given(ROWS, st.data())
def test_updating_turns_rows_that_do_not_pass_into_deletes(
    rows: list[tuple[str, int | None, str | None]], data: st.DataObject
) -> None:
    ops = data.draw(st.none() | st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    frame = batch(rows) if ops is None else batch(rows).with_columns(pl.Series(OP, ops))
    config = FilterConfig("f", "cast(t as int64) > 1", SCHEMA, on_error=OnError.SKIP, update_key=("k",))
    out = run_operator(config, frame)
    were = ops or [False] * len(rows)
    expected = [was or t in (None, "1", "no") for (_, _, t), was in zip(rows, were, strict=True)]
    assert out.frame["k"].to_list() == [k for k, _, _ in rows]
    assert [row.get(OP, False) for row in out.rows] == expected
    assert out.counters["bad"] == sum(t == "no" and not was for (_, _, t), was in zip(rows, were, strict=True))


def test_no_delete_column_where_no_row_is_a_delete() -> None:
    frame = batch([("a", 1, None)])
    out = run_operator(FilterConfig("f", "x > 0", SCHEMA, update_key=("k",)), frame)
    assert out.frame.equals(frame)


@pytest.mark.parametrize(("predicate", "kept"), [("true", 2), ("false", 0), ("1 = 1", 2)])
@pytest.mark.parametrize("update_key", [None, ("k",)])
def test_a_predicate_without_columns_answers_for_every_row(
    predicate: str, kept: int, update_key: tuple[str, ...] | None
) -> None:
    frame = batch([("a", 1, None), ("b", 2, None)])
    out = run_operator(FilterConfig("f", predicate, SCHEMA, update_key=update_key), frame)
    assert sum(not row.get(OP, False) for row in out.rows) == kept


def test_a_failing_row_is_neither_passed_nor_silent() -> None:
    frame = batch([("a", 1, "5"), ("b", 2, "no"), ("c", 3, "1"), ("d", 4, None)])
    config = FilterConfig("f", "cast(t as int64) > 1", SCHEMA, on_error=OnError.DIVERT)
    out = run_operator(config, frame)
    assert [row["k"] for row in out.rows] == ["a"]
    assert out.counters["bad"] == 1
    (bad,) = out.side("bad")
    assert bad == {
        "k": "b",
        "x": 2,
        "t": "no",
        "reason": "cast(t as int64) > 1: no result for t='no'",
        "__ts": 1,
    }
    with pytest.raises(DataError, match="step 'f' failed"):
        run_operator(FilterConfig("f", "cast(t as int64) > 1", SCHEMA), frame)


def test_output_is_the_input_and_checks_the_predicate() -> None:
    assert FilterConfig("f", "x > 0", SCHEMA).output() == SCHEMA
    with pytest.raises(ExpressionError, match="nope"):
        FilterConfig("f", "nope > 0", SCHEMA).output()
