"""The entry points: SQL text and a schema in, compiled polars expressions out. Aggregate expressions are split into
calls, which operators accumulate, and a scalar over their results and the keys.

All of them raise ExpressionError with a remedy and, where it is known, the 0-based offset of the faulty token. A
process plans the same pipeline several times, and compiling aggregates dominates that: compiled steps are cached
(`KEPT_MAX`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import assert_never

import polars as pl
from sqlglot import exp

from headrace.core.errors import ExpressionError
from headrace.core.types import Field, ListOf, Primitive, Schema, Struct
from headrace.expr.aggregates.function import AggregateFunction, Nulls
from headrace.expr.aggregates.table import AGGREGATES
from headrace.expr.check import checked
from headrace.expr.compiled import AggregateCall, CompiledAggregate, CompiledScalar
from headrace.expr.scope import Scope
from headrace.expr.sql.parse import offset_of, parse, source_text
from headrace.expr.sql.translate import Translator
from headrace.expr.terms.term import Term

KEPT_MAX = 256
"""Steps whose compiled aggregates are cached."""
SHARE_DENOMINATOR_MAX = 10**9
"""Of literals from 0 to 1, so that ranks of 2^33 rows fit 64 bits."""
_NUMBERS = {1: "one argument", 2: "two arguments"}


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
    return _compiled_step(tuple(aggregates.items()), schema, repr(schema), tuple(keys), has_time=has_time)


@lru_cache(KEPT_MAX)
def _compiled_step(
    aggregates: tuple[tuple[str, str], ...], schema: Schema, _units: str, keys: tuple[str, ...], *, has_time: bool
) -> tuple[CompiledAggregate, ...]:
    """`_units` is part of the cache key: it distinguishes schemas that compare equal but differ in timestamp unit."""
    compiler = _AggregateCompiler(schema, keys, has_time=has_time)
    return tuple(compiler.compile(name, text) for name, text in aggregates)


class _AggregateCompiler:
    """Compiles the aggregates of one step. Equal calls share a slot, whichever expressions contain them."""

    def __init__(self, schema: Schema, keys: Sequence[str], *, has_time: bool) -> None:
        self._scope = Scope(schema, has_time)
        self._outer = Scope(schema, has_time=False, excluded=frozenset(schema.names) - frozenset(keys))
        self._calls: dict[str, tuple[AggregateCall, bool]] = {}

    def compile(self, name: str, text: str) -> CompiledAggregate:
        """Compiles one `name: expression`."""
        used: dict[str, AggregateCall] = {}

        def aggregate(node: exp.Expr) -> Term:
            call, nullable = self._call(node)
            used[call.slot] = call
            return Term(call.type, pl.col(call.slot), nullable=nullable, columns=frozenset((call.slot,)))

        term = Translator(self._outer, aggregate).term(parse(text))
        term.known_type()
        slots = [Field(call.slot, call.type) for call in used.values()]
        finish = checked(text, term, Schema((*self._outer.schema, *slots)))
        calls = tuple(used.values())
        return CompiledAggregate(name, text, finish.type, finish.nullable, calls, finish.value, finish.fails)

    def _call(self, node: exp.Expr) -> tuple[AggregateCall, bool]:
        key = source_text(node)
        if key not in self._calls:
            self._calls[key] = self._compiled_call(node, f"__a{len(self._calls)}")
        return self._calls[key]

    def _compiled_call(self, node: exp.Expr, slot: str) -> tuple[AggregateCall, bool]:
        condition = None
        if isinstance(node, exp.Filter):
            condition = self._scalar(node.expression.this)
            if condition.type != Primitive.BOOL:
                raise _at(node.expression, f"filter (where ..) needs a bool, not {condition.type}")
            node = node.this
        function = AGGREGATES[str(node.this).lower()]
        operands = list(node.expressions)
        distinct = bool(operands) and isinstance(operands[0], exp.Distinct)
        if distinct:
            operands = [*operands[0].expressions, *operands[1:]]
        if len(operands) != function.arguments + function.shares:
            raise _at(node, f"{function} takes {_NUMBERS[function.arguments + function.shares]}")
        if isinstance(operands[0], exp.Star):
            if not function.counts_rows or distinct:
                raise _at(node, "`*` stands only in count(*)")
            arguments: tuple[CompiledScalar, ...] = ()
        else:
            arguments = tuple(self._scalar(operand) for operand in operands[: function.arguments])
        if distinct and len(arguments) > 1:
            raise _at(node, f"{function} takes no distinct")
        if distinct and isinstance(arguments[0].type, ListOf | Struct):
            raise _at(node, f"distinct takes no {arguments[0].type}", "take a field or an element of it")
        shares = tuple(self._share(operand, function) for operand in operands[function.arguments :])
        try:
            dtype = function.result(function.name, [argument.type for argument in arguments])
        except ExpressionError as error:
            error.offset = offset_of(node)
            raise
        call = AggregateCall(function, arguments, distinct, condition, slot, dtype, shares)
        return call, _nullable(call)

    def _share(self, node: exp.Expr, function: AggregateFunction) -> Fraction:
        """A literal from 0 to 1, exactly as it is written."""
        value = Translator(self._scope).term(node).literal
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise _at(node, f"the second argument of {function} is a number from 0 to 1", f"write {function}(x, 0.95)")
        share = Fraction(repr(value))
        if share.denominator > SHARE_DENOMINATOR_MAX:
            raise _at(node, f"{value} has more than 9 digits after the point", "round it")
        return share

    def _scalar(self, node: exp.Expr) -> CompiledScalar:
        """An argument: a scalar over the input columns."""
        for inner in node.walk():
            if isinstance(inner, exp.Anonymous) and str(inner.this).lower() in AGGREGATES:
                raise _at(inner, "an aggregate cannot stand inside another one")
        term = Translator(self._scope).term(node)
        term.known_type()
        return checked(source_text(node), term, self._scope.schema)


def _nullable(call: AggregateCall) -> bool:
    match call.function.nulls:
        case Nulls.NEVER:
            return False
        case Nulls.FEW_VALUES:
            return True
        case Nulls.NO_VALUES:
            return call.where is not None or any(argument.nullable for argument in call.arguments)
        case never:
            assert_never(never)


def _at(node: exp.Expr, message: str, remedy: str | None = None) -> ExpressionError:
    return ExpressionError(message, offset=offset_of(node), remedy=remedy)
