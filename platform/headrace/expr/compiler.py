"""The entry points: an expression and the columns that it may read in, compiled polars expressions out.

An expression is SQL text, or a tree that SQL text was parsed to. Columns are a schema, or relations, each with a name
(`left.x`). All entry points raise ExpressionError with a remedy and, where it is known, the 0-based offset of the
faulty token in the text that was parsed. A process plans the same pipeline several times, and compiling aggregates
dominates that: steps whose aggregates are texts are cached (`KEPT_MAX`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from sqlglot import exp

from headrace.core.errors import ExpressionError
from headrace.core.types import Primitive, Schema
from headrace.expr.aggregates import compile_step
from headrace.expr.check import checked
from headrace.expr.compiled import CompiledAggregate, CompiledScalar
from headrace.expr.scope import Relation, Scope
from headrace.expr.sql.parse import offset_of, text_of, tree_of
from headrace.expr.sql.translate import Translator

KEPT_MAX = 256
"""Steps whose compiled aggregates are cached."""

Source = str | exp.Expr
"""An expression: its text, or its tree."""
Columns = Schema | Sequence[Relation]
"""The columns that an expression may read. A schema is one relation without a name."""


def compile_scalar(source: Source, columns: Columns, *, has_time: bool = True) -> CompiledScalar:
    """A scalar expression over these columns. `has_time`: the rows have an event time (`__ts`)."""
    scope = Scope.over(columns, has_time=has_time)
    term = Translator(scope).term(tree_of(source))
    return checked(text_of(source), term, scope.schema)


def compile_predicate(source: Source, columns: Columns, *, has_time: bool = True) -> CompiledScalar:
    """A scalar expression of type bool. NULL means no, as in SQL's `where`."""
    compiled = compile_scalar(source, columns, has_time=has_time)
    if compiled.type != Primitive.BOOL:
        raise ExpressionError(
            f"a condition is needed, and this is {compiled.type}",
            offset=0 if isinstance(source, str) else offset_of(source),
            remedy="compare it with something: x > 0, x is not null",
        )
    return compiled


def compile_aggregates(
    aggregates: Mapping[str, Source], columns: Columns, keys: Sequence[str], *, has_time: bool = True
) -> tuple[CompiledAggregate, ...]:
    """The aggregates of a step: name to expression over aggregate calls and the columns in `keys`.

    `keys` are names that the rows have for columns. Calls have slots `__a0`, `__a1`, .. that are unique in the step;
    equal calls share one.
    """
    scope = Scope.over(columns, has_time=has_time)
    texts = {name: source for name, source in aggregates.items() if isinstance(source, str)}
    if len(texts) < len(aggregates):
        return compile_step(aggregates, scope, keys)
    return _kept(tuple(texts.items()), scope, repr(scope), tuple(keys))


@lru_cache(KEPT_MAX)
def _kept(
    aggregates: tuple[tuple[str, str], ...], scope: Scope, _cache_key: str, keys: tuple[str, ...]
) -> tuple[CompiledAggregate, ...]:
    """`_cache_key` distinguishes schemas that compare equal but differ in timestamp unit."""
    return compile_step(dict(aggregates), scope, keys)
