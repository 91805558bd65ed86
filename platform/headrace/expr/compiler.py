"""The entry points: SQL text and a schema in, compiled polars expressions out.

All of them raise ExpressionError with a remedy and, where it is known, the 0-based offset of the faulty token. A
process plans the same pipeline several times, and compiling aggregates dominates that: compiled steps are cached
(`KEPT_MAX`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from headrace.core.errors import ExpressionError
from headrace.core.types import Primitive, Schema
from headrace.expr.aggregates import compile_step
from headrace.expr.check import checked
from headrace.expr.compiled import CompiledAggregate, CompiledScalar
from headrace.expr.scope import Scope
from headrace.expr.sql.parse import parse
from headrace.expr.sql.translate import Translator

KEPT_MAX = 256
"""Steps whose compiled aggregates are cached."""


def compile_scalar(text: str, schema: Schema, *, has_time: bool = True) -> CompiledScalar:
    """A scalar expression over the visible columns of `schema`. `has_time`: the rows have an event time (`__ts`)."""
    term = Translator(Scope(schema, has_time)).term(parse(text))
    return checked(text, term, schema)


def compile_predicate(text: str, schema: Schema, *, has_time: bool = True) -> CompiledScalar:
    """A scalar expression of type bool. NULL means no, as in SQL's `where`."""
    compiled = compile_scalar(text, schema, has_time=has_time)
    if compiled.type != Primitive.BOOL:
        raise ExpressionError(
            f"a condition is needed, and this is {compiled.type}",
            offset=0,
            remedy="compare it with something: x > 0, x is not null",
        )
    return compiled


def compile_aggregates(
    aggregates: Mapping[str, str], schema: Schema, keys: Sequence[str], *, has_time: bool = True
) -> tuple[CompiledAggregate, ...]:
    """The aggregates of a step: name to expression over aggregate calls and the columns in `keys`.

    Calls have slots `__a0`, `__a1`, .. that are unique in the step; equal calls share one.
    """
    return _kept(tuple(aggregates.items()), schema, repr(schema), tuple(keys), has_time=has_time)


@lru_cache(KEPT_MAX)
def _kept(
    aggregates: tuple[tuple[str, str], ...], schema: Schema, _told: str, keys: tuple[str, ...], *, has_time: bool
) -> tuple[CompiledAggregate, ...]:
    """`_told` is part of the cache key: it distinguishes schemas that compare equal but differ in timestamp unit."""
    return compile_step(dict(aggregates), schema, keys, has_time=has_time)
