"""The typed intermediate form of an expression: type, value and failures of every subexpression during compilation.

`once` and `bound` evaluate each argument once: polars has no local names, and a frame's `select` does not share
subexpressions. Otherwise a builder that uses an argument several times would evaluate it as often, and nested calls
would multiply that; random() would have two values in one call.

Knows types and polars expressions, nothing of SQL text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

import polars as pl

from headrace.core.errors import ExpressionError
from headrace.core.types import DataType, polars_type

LiteralValue = int | float | str | bool | date | datetime


@dataclass(frozen=True, slots=True)
class Interval:
    """The value of an interval literal: calendar months and a fixed length, added in this order."""

    months: int
    length: timedelta


@dataclass(frozen=True, slots=True)
class Term:
    """A compiled subexpression.

    type        None: a NULL that has no type yet
    value       polars expression; arbitrary where `fails` is true
    fails       boolean polars expression, true in failing rows (NULL counts as false); None: cannot fail
    literal     the value, if the term is a literal
    interval    set only for an interval literal, which can only be added to a time
    """

    type: DataType | None
    value: pl.Expr
    nullable: bool = True
    fails: pl.Expr | None = None
    columns: frozenset[str] = frozenset()
    uses_time: bool = False
    not_replayable: str | None = None
    literal: LiteralValue | None = None
    interval: Interval | None = None

    @property
    def type_name(self) -> str:
        """The type as error messages show it."""
        if self.interval is not None:
            return "interval"
        return "NULL" if self.type is None else str(self.type)

    def known_type(self) -> DataType:
        """The type. Raises ExpressionError for an untyped NULL or an interval."""
        if self.interval is not None:
            raise ExpressionError("an interval can only be added to or taken from a timestamp or date")
        if self.type is None:
            raise ExpressionError("this NULL has no type", remedy="give it one: cast(null as string)")
        return self.type


NULL = Term(None, pl.lit(None))


def literal(value: LiteralValue, dtype: DataType) -> Term:
    """A constant that is not NULL."""
    return Term(dtype, pl.lit(value, dtype=polars_type(dtype)), nullable=False, literal=value)


def either(*masks: pl.Expr | None) -> pl.Expr | None:
    """True where any of the masks is; None without any mask."""
    found = None
    for mask in masks:
        if mask is not None:
            found = mask if found is None else found | mask
    return found


def only_where(condition: pl.Expr, mask: pl.Expr | None) -> pl.Expr | None:
    """The mask of a branch that is taken only where `condition` is true (NULL counts as false)."""
    return None if mask is None else condition.fill_null(value=False) & mask


def combine(
    parts: Sequence[Term],
    dtype: DataType,
    value: pl.Expr,
    *,
    nullable: bool | None = None,
    fails: pl.Expr | None = None,
    inherit_fails: bool = True,
) -> Term:
    """A term made of others. By default it may be NULL if one of them may be, and fails where one of them does."""
    inherited = either(*(part.fails for part in parts)) if inherit_fails else None
    return Term(
        dtype,
        value,
        nullable=any(part.nullable for part in parts) if nullable is None else nullable,
        fails=either(inherited, fails),
        columns=frozenset[str]().union(*(part.columns for part in parts)),
        uses_time=any(part.uses_time for part in parts),
        not_replayable=next((part.not_replayable for part in parts if part.not_replayable), None),
    )


def with_type(term: Term, dtype: DataType) -> Term:
    """The same term, held as another type that can represent each of its values."""
    if term.type == dtype:
        return term
    target = polars_type(dtype)
    if term.type is None:
        return replace(term, type=dtype, value=pl.lit(None, dtype=target))
    if isinstance(term.literal, int) and not isinstance(term.literal, bool) and not target.is_decimal():
        return replace(term, type=dtype, value=pl.lit(term.literal, dtype=target))
    return replace(term, type=dtype, value=term.value.cast(target, strict=False), literal=None)


def once(values: Sequence[pl.Expr], build: Callable[..., pl.Expr], dtype: pl.DataType) -> pl.Expr:
    """`build(*values)`, a result of type `dtype`. If all values are columns or literals, which cost nothing, `build`
    receives them as they are. Otherwise all are computed first, and `build` works on a frame of them."""
    if all(_is_free(value) for value in values):
        return build(*values)
    names = [None if value.meta.is_literal() else str(number) for number, value in enumerate(values)]
    inner = build(*(value if name is None else pl.col(name) for name, value in zip(names, values, strict=True)))
    kept = [name for name in names if name is not None]

    def evaluate(columns: Sequence[pl.Series]) -> pl.Series:
        named = (column.alias(name) for name, column in zip(kept, aligned(columns), strict=True))
        return pl.DataFrame(list(named)).select(inner.alias(columns[0].name)).to_series()

    inputs = [value for name, value in zip(names, values, strict=True) if name is not None]
    return pl.map_batches(inputs, evaluate, return_dtype=dtype)


def bound(terms: Sequence[Term], build: Callable[..., pl.Expr], dtype: DataType) -> pl.Expr:
    """`build(*terms)` with each term's value evaluated once."""

    def over(*values: pl.Expr) -> pl.Expr:
        return build(*(replace(term, value=value, fails=None) for term, value in zip(terms, values, strict=True)))

    return once([term.value for term in terms], over, polars_type(dtype))


def aligned(columns: Sequence[pl.Series]) -> list[pl.Series]:
    """The columns at one height: polars passes constants as a single row."""
    heights = {len(column) for column in columns}
    height = 0 if 0 in heights else max(heights)
    return [column if len(column) == height else column.new_from_index(0, height) for column in columns]


def _is_free(value: pl.Expr) -> bool:
    return value.meta.is_column() or value.meta.is_literal()
