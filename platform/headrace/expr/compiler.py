"""The entry points: an expression and the columns that it may read in, compiled polars expressions out. Aggregate
expressions are split into calls, which operators accumulate, and a scalar over their results and the keys.

An expression is SQL text, or a tree that SQL text was parsed to. Columns are a schema, or relations, each with a name
(`left.x`). All entry points raise ExpressionError with a remedy and, where it is known, the 0-based offset of the
faulty token in the text that was parsed. A process plans the same pipeline several times, and compiling aggregates
dominates that: steps whose aggregates are texts are cached (`KEPT_MAX`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import assert_never

import polars as pl
from sqlglot import exp

from headrace.core.batch import TS
from headrace.core.errors import ExpressionError
from headrace.core.types import Field, ListOf, Primitive, Schema, Struct, polars_type
from headrace.expr.aggregates.function import AggregateFunction, Nulls
from headrace.expr.aggregates.table import AGGREGATES
from headrace.expr.compiled import AggregateCall, CompiledAggregate, CompiledScalar
from headrace.expr.scope import Relation, Scope
from headrace.expr.sql.parse import offset_of, source_text, text_of, tree_of
from headrace.expr.sql.translate import Translator
from headrace.expr.terms.term import Term

KEPT_MAX = 256
"""Steps whose compiled aggregates are cached."""
SHARE_DENOMINATOR_MAX = 10**9
"""Of literals from 0 to 1, so that ranks of 2^33 rows fit 64 bits."""
_NUMBERS = {1: "one argument", 2: "two arguments"}

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
        return _compiled_step(aggregates, scope, keys)
    return _kept(tuple(texts.items()), scope, repr(scope), tuple(keys))


@lru_cache(KEPT_MAX)
def _kept(
    aggregates: tuple[tuple[str, str], ...], scope: Scope, _cache_key: str, keys: tuple[str, ...]
) -> tuple[CompiledAggregate, ...]:
    """`_cache_key` distinguishes schemas that compare equal but differ in timestamp unit."""
    return _compiled_step(dict(aggregates), scope, keys)


def _compiled_step(
    aggregates: Mapping[str, Source], scope: Scope, keys: Sequence[str]
) -> tuple[CompiledAggregate, ...]:
    compiler = _AggregateCompiler(scope, keys)
    return tuple(compiler.compile(name, source) for name, source in aggregates.items())


class _AggregateCompiler:
    """Compiles the aggregates of one step. Equal calls share a slot, whichever expressions contain them."""

    def __init__(self, scope: Scope, keys: Sequence[str]) -> None:
        """keys: names that the rows have for the key columns."""
        self._scope = scope
        self._outer = replace(scope, has_time=False, excluded=frozenset(scope.schema.names) - frozenset(keys))
        self._calls: dict[str, tuple[AggregateCall, bool]] = {}

    def compile(self, name: str, source: Source) -> CompiledAggregate:
        """Compiles one `name: expression`."""
        used: dict[str, AggregateCall] = {}

        def aggregate(node: exp.Expr) -> Term:
            call, nullable = self._call(node)
            used[call.slot] = call
            return Term(call.type, pl.col(call.slot), nullable=nullable, columns=frozenset((call.slot,)))

        term = Translator(self._outer, aggregate).term(tree_of(source))
        text = text_of(source)
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


# ---- the last step: a trial on an empty frame ------------------------------------------------------------------------


def checked(text: str, term: Term, schema: Schema) -> CompiledScalar:
    """The term as a compiled expression of exactly its type, with as many rows as the frame it is applied to.

    Raises ExpressionError if polars rejects it.
    """
    dtype = term.known_type()
    target = polars_type(dtype)
    frame = pl.DataFrame(schema={**schema.polars(), TS: pl.Int64})
    value = term.value
    fails = None if term.fails is None else term.fails.fill_null(value=False)
    try:
        made = frame.select(value.alias("value")).schema["value"]
        if made != target:
            value = value.cast(target)
        if fails is not None:
            assert frame.select(fails.alias("fails")).schema["fails"] == pl.Boolean, "a mask is boolean"
    except pl.exceptions.PolarsError as error:
        raise ExpressionError(f"polars refuses this expression: {str(error).splitlines()[0]}") from error
    return CompiledScalar(
        text=text,
        type=dtype,
        nullable=term.nullable,
        value=_for_each_row(value),
        fails=None if fails is None else _for_each_row(fails),
        columns=term.columns,
        uses_time=term.uses_time,
        not_replayable=term.not_replayable,
    )


def _for_each_row(value: pl.Expr) -> pl.Expr:
    """Ties a constant to the frame's height: `select` does not stretch an expression that reads no column."""
    if value.meta.root_names():
        return value
    return pl.when(pl.int_range(pl.len()) >= 0).then(value)
