"""Comparisons and the three-valued `and`, `or`, `not`, `in`, `between`.

Floats compare as polars compares them (-0.0 = 0.0, every NaN equal and above all else). Only polars' horizontal maximum
ignores NaN, which `greatest` corrects.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from headrace.core.errors import ExpressionError
from headrace.core.types import FLOAT_TYPES, DataType, ListOf, Primitive, Struct, polars_type
from headrace.expr.terms.coercion import unify, unify_for_comparison
from headrace.expr.terms.term import Term, bound, combine, either, literal, only_where, with_type

EQUALITY = ("=", "<>")
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def reads_nothing(value: pl.Expr) -> bool:
    """Whether the expression is a constant. Constants go to the right of a comparison: with a constant at the left of a
    column that polars holds as one scalar, the result has the wrong height (polars 2.1)."""
    return not value.meta.root_names()


def compare(symbol: str, left: Term, right: Term) -> Term:
    """`=`, `<>`, `<`, `<=`, `>`, `>=`: NULL where either side is."""
    left, right = _comparable(symbol, left, right)
    if reads_nothing(left.value) and not reads_nothing(right.value):
        return compare(_MIRRORED[symbol], right, left)
    one, two = left.value, right.value
    match symbol:
        case "=":
            value = one == two
        case "<>":
            value = one != two
        case "<":
            value = one < two
        case "<=":
            value = one <= two
        case ">":
            value = one > two
        case _:
            value = one >= two
    return combine([left, right], Primitive.BOOL, value)


def distinct_from(left: Term, right: Term, *, negate: bool) -> Term:
    """`is [not] distinct from`: NULL compares like a value."""
    left, right = _comparable("=", left, right)
    if reads_nothing(left.value):
        left, right = right, left
    value = left.value.eq_missing(right.value) if negate else left.value.ne_missing(right.value)
    return combine([left, right], Primitive.BOOL, value, nullable=False)


def is_null(term: Term) -> Term:
    """`x is null`."""
    if term.type is None and term.interval is None:
        return literal(value=True, dtype=Primitive.BOOL)
    term.known_type()
    return combine([term], Primitive.BOOL, term.value.is_null(), nullable=False)


def is_truth(term: Term, *, truth: bool) -> Term:
    """`x is true`, `x is false`: never NULL."""
    boolean = as_bool(term, "is")
    value = boolean.value if truth else ~boolean.value
    return combine([boolean], Primitive.BOOL, value.fill_null(value=False), nullable=False)


def as_bool(term: Term, what: str) -> Term:
    """The term, if it is a bool; an untyped NULL becomes one."""
    if term.type is None and term.interval is None:
        return with_type(term, Primitive.BOOL)
    if term.type != Primitive.BOOL:
        remedy = f"compare it: {what} x <> 0" if term.type in (Primitive.INT32, Primitive.INT64) else None
        raise ExpressionError(f"{what} needs a bool, not {term.type_name}", remedy=remedy)
    return term


def both(left: Term, right: Term) -> Term:
    """`and`: where the left side is false the right side is not evaluated, so it cannot fail there."""
    left, right = as_bool(left, "and"), as_bool(right, "and")
    asked = None if right.fails is None else only_where(left.value.fill_null(value=True), right.fails)
    return combine(
        [left, right],
        Primitive.BOOL,
        left.value & right.value,
        fails=either(left.fails, asked),
        inherit_fails=False,
    )


def any_of(left: Term, right: Term) -> Term:
    """`or`: where the left side is true the right side is not evaluated, so it cannot fail there."""
    left, right = as_bool(left, "or"), as_bool(right, "or")
    asked = None if right.fails is None else only_where(~left.value.fill_null(value=False), right.fails)
    return combine(
        [left, right],
        Primitive.BOOL,
        left.value | right.value,
        fails=either(left.fails, asked),
        inherit_fails=False,
    )


def invert(term: Term) -> Term:
    """`not`."""
    boolean = as_bool(term, "not")
    return combine([boolean], Primitive.BOOL, ~boolean.value)


def between(term: Term, low: Term, high: Term) -> Term:
    """`x between low and high`, both ends included."""

    def value(item: Term, first: Term, last: Term) -> pl.Expr:
        return compare(">=", item, first).value & compare("<=", item, last).value

    compare(">=", term, low), compare("<=", term, high)
    return combine([term, low, high], Primitive.BOOL, bound([term, low, high], value, Primitive.BOOL))


def member(term: Term, choices: Sequence[Term]) -> Term:
    """`x in (a, b, ..)`: NULL if x is, or if it equals none and one of them is NULL."""
    given = [choice for choice in choices if choice.type is not None or choice.interval is not None]
    has_null = len(given) < len(choices)
    if not given:
        return combine([term], Primitive.BOOL, pl.lit(None, dtype=pl.Boolean), nullable=True)
    if all(choice.literal is not None for choice in given) and isinstance(term.type, Primitive):
        found = _member_of_literals(term, given)
    else:
        found = compare("=", term, given[0])
        for choice in given[1:]:
            other = compare("=", term, choice)
            found = combine([found, other], Primitive.BOOL, found.value | other.value)
    if has_null:
        # three-valued logic: true stays true, false becomes NULL
        value = found.value | pl.lit(None, dtype=pl.Boolean)
        found = combine([found], Primitive.BOOL, value, nullable=True)
    return found


def _member_of_literals(term: Term, choices: Sequence[Term]) -> Term:
    (held, *others), dtype = unify([term, *choices], "in")
    values = pl.select(pl.concat([other.value for other in others])).to_series()
    assert values.dtype == polars_type(dtype), "the literals are in the common type"
    return combine([held], Primitive.BOOL, held.value.is_in(values.implode()))


def greatest(terms: Sequence[Term], *, least: bool) -> Term:
    """The largest (smallest) value that is not NULL; NULL if all are."""
    name = "least" if least else "greatest"
    typed, dtype = unify(terms, name)
    require_order(dtype, name)
    if least:
        value = pl.min_horizontal([term.value for term in typed])
    elif dtype in FLOAT_TYPES:
        value = bound(typed, _greatest_float, dtype)
    else:
        value = pl.max_horizontal([term.value for term in typed])
    return combine(typed, dtype, value, nullable=all(term.nullable for term in typed))


def _greatest_float(*terms: Term) -> pl.Expr:
    any_nan = pl.any_horizontal([term.value.is_nan().fill_null(value=False) for term in terms])
    largest = pl.max_horizontal([term.value for term in terms])
    return pl.when(any_nan).then(pl.lit(math.nan, dtype=polars_type(terms[0].known_type()))).otherwise(largest)


def require_order(dtype: DataType, what: str) -> None:
    """Raises ExpressionError for types without an order."""
    if isinstance(dtype, ListOf | Struct):
        raise ExpressionError(f"{what}: values of type {dtype} have no order")


def _comparable(symbol: str, left: Term, right: Term) -> tuple[Term, Term]:
    if left.type is None and right.type is None and left.interval is None and right.interval is None:
        return with_type(left, Primitive.BOOL), with_type(right, Primitive.BOOL)
    left, right = unify_for_comparison(left, right, f"comparison with {symbol}")
    dtype = left.known_type()
    if symbol not in EQUALITY:
        require_order(dtype, symbol)
    elif contains_float(dtype) and isinstance(dtype, ListOf | Struct):
        raise ExpressionError(f"{symbol}: {dtype} holds floats; compare its fields")
    return left, right


def contains_float(dtype: DataType) -> bool:
    """Whether the type is or contains a float type."""
    match dtype:
        case ListOf(inner):
            return contains_float(inner)
        case Struct(fields):
            return any(contains_float(item.type) for item in fields)
        case _:
            return dtype in FLOAT_TYPES
