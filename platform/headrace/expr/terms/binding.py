"""Evaluates each argument once: polars has no local names, and a frame's `select` does not share subexpressions.

Otherwise a builder that uses an argument several times would evaluate it as often, and nested calls would multiply
that; random() would have two values in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import polars as pl

from headrace.core.types import DataType, polars_type
from headrace.expr.terms.term import Term


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
