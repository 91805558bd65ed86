"""Whatever is written: an expression compiles or says why not, gives its declared type, and knows no batches."""

from __future__ import annotations

import contextlib

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import ExpressionError
from headrace.core.types import polars_type
from headrace.expr.compiler import compile_aggregates, compile_scalar
from headrace.expr.functions.table import FORMS, FUNCTIONS
from support.suite.properties import weighted
from unit.expr.grid import SCHEMA, evaluate, frame, same
from unit.expr.test_functions import ROWS
from unit.expr.test_operators import AS_IN_DUCKDB

_LITERAL_TEXT = "1|0|-1|2.5|'a'|''|null|true|date '2013-01-01'|timestamp '2013-01-01'|interval '1 month'|'day'"
_LITERALS = _LITERAL_TEXT.split("|")
_WORDS = ["9223372036854775807", "now()", "st.q", "l[1]", "nothing", "__ts"]
_LEAVES = st.sampled_from([*SCHEMA.names, *_LITERALS, *_WORDS])
_BINARY = st.sampled_from(["+", "-", "*", "/", "//", "%", "=", "<", ">=", "<>", "and", "or", "||", "is distinct from"])
_CALLED = st.sampled_from(sorted(set(FUNCTIONS) | (set(FORMS) - {"random", "uuid"})))
_TARGETS = st.sampled_from(
    ["int32", "int64", "float32", "float64", "string", "bool", "date", "timestamp", "decimal(9,3)"]
)


def _extended(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, _BINARY, inner).map(lambda parts: f"({' '.join(parts)})"),
        st.tuples(_CALLED, st.lists(inner, max_size=3)).map(lambda parts: f"{parts[0]}({', '.join(parts[1])})"),
        st.tuples(inner, _TARGETS).map(lambda parts: f"cast({parts[0]} as {parts[1]})"),
        st.tuples(inner, inner, inner).map(lambda parts: "case when {} then {} else {} end".format(*parts)),
        st.tuples(inner, inner).map(lambda parts: "{} in ({}, null)".format(*parts)),
        inner.map(lambda part: f"(not {part})"),
        inner.map(lambda part: f"-({part})"),
        inner.map(lambda part: f"({part} is null)"),
    )


EXPRESSIONS = st.recursive(_LEAVES, _extended, max_leaves=8)
EVERY_ROW = [row if isinstance(row, str) else row[0] for rows in ROWS.values() for row in rows] + AS_IN_DUCKDB


@weighted(4)
@given(EXPRESSIONS)
def test_a_random_expression_has_its_declared_type_or_an_error(text: str) -> None:
    try:
        compiled = compile_scalar(text, SCHEMA)
    except ExpressionError as error:
        assert error.offset is None or 0 <= error.offset <= len(text)
        return
    values = frame().select(compiled.value.alias("value"))["value"]
    assert values.dtype == polars_type(compiled.type)
    whole = evaluate(compiled, frame())
    halves = evaluate(compiled, frame()[:5]) + evaluate(compiled, frame()[5:])
    assert same(whole, halves)
    if not compiled.nullable:
        assert None not in whole


@weighted(4)
@given(st.text(max_size=30))
def test_any_text_gives_an_expression_or_an_error(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        compile_scalar(text, SCHEMA)


_TOKEN_TEXT = """a i ( ) [ ] , . + - * :: cast as case when then end 'x' " count sum over ; 1 2.5 in is not null"""
_TOKENS = _TOKEN_TEXT.split()


@weighted(4)
@given(st.lists(st.sampled_from(_TOKENS), max_size=10))
def test_any_row_of_tokens_gives_an_expression_or_an_error(tokens: list[str]) -> None:
    text = " ".join(tokens)
    with contextlib.suppress(ExpressionError):
        compile_scalar(text, SCHEMA)
    with contextlib.suppress(ExpressionError):
        compile_aggregates({"x": text}, SCHEMA, ["i"])


@pytest.mark.parametrize("row", range(0, 12, 4))
def test_columns_that_hold_one_scalar_give_the_same(row: int) -> None:
    """Polars keeps a constant column as one value, and some of its operations then give one row only."""
    plain = pl.concat([frame()[row : row + 1]] * 3)
    scalars = plain.with_columns(pl.all().first())
    for text in EVERY_ROW:
        compiled = compile_scalar(text, SCHEMA)
        assert same(evaluate(compiled, plain), evaluate(compiled, scalars)), text


@pytest.mark.parametrize("rows", [0, 1])
def test_frames_of_no_row_and_of_one(rows: int) -> None:
    for text in EVERY_ROW:
        compiled = compile_scalar(text, SCHEMA)
        whole = evaluate(compiled, frame())
        assert same(evaluate(compiled, frame()[:rows]), whole[:rows]), text


def test_many_expressions_in_one_select() -> None:
    compiled = [compile_scalar(text, SCHEMA) for text in (*EVERY_ROW[:80], "1", "'a'", "cast('x' as int64)")]
    made = frame().select(item.value.alias(str(number)) for number, item in enumerate(compiled))
    assert made.height == frame().height
