"""Expressions render to SQL that parses to the tree that was built."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import cast

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from headrace.api import Expr, avg, case, col, count, first, fn, last, lit, max_, min_, sql, stddev, sum_, var
from headrace.api.literal import Value
from headrace.core.errors import UserError
from headrace.core.types import Schema
from headrace.expr.compiler import compile_scalar
from headrace.expr.sql.parse import parse
from support.suite.properties import weighted

A, B = col("a"), col("b")

Pair = tuple[Expr, exp.Expr]
"""An expression of the builder, and the tree that it must be read as."""

_BINARY: list[tuple[Callable[[Expr, Expr], Expr], type[exp.Expr]]] = [
    (lambda a, b: a & b, exp.And),
    (lambda a, b: a | b, exp.Or),
    (lambda a, b: a + b, exp.Add),
    (lambda a, b: a - b, exp.Sub),
    (lambda a, b: a * b, exp.Mul),
    (lambda a, b: a / b, exp.Div),
    (lambda a, b: a // b, exp.IntDiv),
    (lambda a, b: a % b, exp.Mod),
    (lambda a, b: a**b, exp.Pow),
    (lambda a, b: a == b, exp.EQ),
    (lambda a, b: a != b, exp.NEQ),
    (lambda a, b: a < b, exp.LT),
    (lambda a, b: a <= b, exp.LTE),
    (lambda a, b: a > b, exp.GT),
    (lambda a, b: a >= b, exp.GTE),
    (lambda a, b: a.concat(b), exp.DPipe),
    (lambda a, b: a.is_distinct_from(b), exp.NullSafeNEQ),
    (lambda a, b: a.is_not_distinct_from(b), exp.NullSafeEQ),
]

_LEAVES: st.SearchStrategy[Pair] = st.one_of(
    st.sampled_from(["a", "b", "Date", "from", "x y", 'q"t', "interval"]).map(
        lambda name: (col(name), exp.Column(this=exp.Identifier(this=name)))
    ),
    st.integers(min_value=0, max_value=2**63 - 1).map(lambda v: (lit(v), exp.Literal.number(str(v)))),
    st.integers(min_value=1, max_value=99).map(lambda v: (lit(-v), exp.Neg(this=exp.Literal.number(str(v))))),
    st.text(max_size=5).map(lambda v: (lit(v), exp.Literal.string(v))),
    st.booleans().map(lambda v: (lit(v), exp.Boolean(this=v))),
    st.just((lit(None), exp.Null())),
    st.just((sql("a or b"), exp.Or(this=parse("a"), expression=parse("b")))),
)


def _larger(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    return st.one_of(
        st.tuples(st.sampled_from(_BINARY), inner, inner).map(
            lambda t: (t[0][0](t[1][0], t[2][0]), t[0][1](this=t[1][1], expression=t[2][1]))
        ),
        inner.map(lambda x: (~x[0], exp.Not(this=x[1]))),
        inner.map(lambda x: (-x[0], exp.Neg(this=x[1]))),
        inner.map(lambda x: (x[0].is_null(), exp.Is(this=x[1], expression=exp.Null()))),
        inner.map(lambda x: (fn("f", x[0]), exp.Anonymous(this="f", expressions=[x[1]]))),
        inner.map(lambda x: (x[0].cast("int64"), exp.Cast(this=x[1], to=exp.DataType.build("bigint")))),
        st.tuples(inner, inner, inner).map(
            lambda t: (t[0][0].between(t[1][0], t[2][0]), exp.Between(this=t[0][1], low=t[1][1], high=t[2][1]))
        ),
        st.tuples(inner, inner).map(lambda t: (t[0][0].is_in([t[1][0]]), exp.In(this=t[0][1], expressions=[t[1][1]]))),
    )


def _shape(node: exp.Expr) -> object:
    """A tree without parentheses, positions and quotes: what operator holds what."""
    if isinstance(node, exp.Paren):
        return _shape(node.this)
    if isinstance(node, exp.Column | exp.Literal | exp.Boolean | exp.Null):
        return (type(node).__name__, node.name, getattr(node, "is_string", False))
    if isinstance(node, exp.Cast):
        return ("Cast", _shape(node.this))
    return (type(node).__name__, str(node.name), tuple(_shape(child) for child in node.iter_expressions()))


@weighted(3)
@given(st.recursive(_LEAVES, _larger, max_leaves=12))
def test_a_rendered_expression_parses_to_the_tree_that_was_built(pair: Pair) -> None:
    built, tree = pair
    assert _shape(parse(built.sql)) == _shape(tree)


@weighted(3)
@example("IF")
@given(st.text(min_size=1, max_size=12) | st.sampled_from(sorted(DuckDB.Tokenizer.KEYWORDS)).map(str.lower))
def test_any_name_is_read_as_that_column(name: str) -> None:
    tree = parse(col(name).sql)
    assert isinstance(tree, exp.Column)
    assert (tree.name, tree.table) == (name, "")


def _value(built: Expr) -> object:
    scalar = compile_scalar(built.sql, Schema(()), has_time=False)
    return pl.DataFrame({"row": [1]}).select(x=scalar.value).item()


@weighted(2)
@given(
    st.one_of(
        st.integers(min_value=-(2**63), max_value=2**63 - 1),
        st.floats(allow_nan=False),
        st.booleans(),
        st.text(max_size=20),
        st.dates(),
        st.datetimes(),
        st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9),
    )
)
def test_a_literal_evaluates_to_its_value(value: Value) -> None:
    wanted = value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
    found = _value(lit(value))
    if isinstance(found, datetime):
        found = found.replace(tzinfo=UTC)
    assert found == wanted
    assert type(found) is type(wanted)


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (A.is_not_null() & (B > 3), "a is not null and b > 3"),
        ((A | B) & ~A, "(a or b) and not a"),
        (A - (B - 1), "a - (b - 1)"),
        (A - B - 1, "a - b - 1"),
        (2 * (A + 1.5), "2 * (a + 1.5)"),
        (-(-A), "-(-a)"),  # noqa: B002 - a minus of a minus is the point
        (lit(-5) ** 2, "(-5) ** 2"),
        ((A == "it's") | A.is_in(["x", None]), "a = 'it''s' or a in ('x', null)"),
        (A.field("b c").element(-1), 'a."b c"[-1]'),
        (A.cast("decimal(10,2)") / 2, "cast(a as decimal(10,2)) / 2"),
        (A.try_cast("date") >= date(2013, 1, 31), "try_cast(a as date) >= date '2013-01-31'"),
        (A + timedelta(minutes=90), "a + interval '90 minutes'"),
        (datetime(2013, 1, 1, 6, tzinfo=timezone(timedelta(hours=1))) < A, "a > timestamp '2013-01-01 05:00:00'"),
        (fn("Lower", A) == B, "lower(a) = b"),
        (case((A > 1, "many"), ("b", 0), otherwise=None), "case when a > 1 then 'many' when b then 0 end"),
        (case((A, 1), otherwise=B), "case when a then 1 else b end"),
        (A.like("x%") & ~A.ilike("_y"), "a like 'x%' and not a ilike '_y'"),
        (1 - A, "1 - a"),
        (lit(Decimal("1.50")), "cast('1.50' as decimal(3, 2))"),
        (col("date"), '"date"'),
    ],
)
def test_canonical_text(built: Expr, text: str) -> None:
    assert built.sql == str(built) == text


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (count(), "count(*)"),
        (count("a").distinct(), "count(distinct a)"),
        (sum_(A * B).where("a > 0"), "sum(a * b) filter (where a > 0)"),
        (count().where(A > 0).where(B.is_null()), "count(*) filter (where a > 0 and b is null)"),
        (sum_(A) / count(), "sum(a) / count(*)"),
        (max_(A) - min_(A), "max(a) - min(a)"),
        (avg(A).distinct().where("b"), "avg(distinct a) filter (where b)"),
        (stddev(A) + var(A), "stddev(a) + var(a)"),
        (first(A), "first(a)"),
        (last("a"), "last(a)"),
    ],
)
def test_aggregates(built: Expr, text: str) -> None:
    assert built.sql == text


def test_an_expression_has_no_truth_value() -> None:
    with pytest.raises(UserError, match="combine with &"):
        bool(A > 1)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: col(""),
        lambda: fn("drop table", A),
        lambda: A == None,  # noqa: E711 - the mistake that is refused
        lambda: A != None,  # noqa: E711
        lambda: A.is_in([]),
        lambda: A.is_in("abc"),
        case,
        count().distinct,
        lambda: lit(cast("Value", object())),
        lambda: lit(Decimal("NaN")),
        lambda: lit(Decimal(10) ** 40),
    ],
)
def test_what_has_no_meaning_is_refused_with_a_remedy(wrong: Callable[[], object]) -> None:
    with pytest.raises(UserError) as caught:
        wrong()
    assert caught.value.remedy


def test_intervals_of_every_unit_are_read() -> None:
    start = datetime(2020, 1, 31)
    for step in (timedelta(days=2), timedelta(hours=-3), timedelta(milliseconds=7), timedelta(microseconds=1)):
        found = _value(lit(start) + step)
        assert isinstance(found, datetime)
        assert found.replace(tzinfo=None) == start + step
