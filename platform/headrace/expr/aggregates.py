"""Aggregate expressions: split into calls, which operators accumulate, and a scalar over their results and the keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl
from sqlglot import exp

from headrace.core.errors import ExpressionError
from headrace.core.types import FLOAT_TYPES, INT_TYPES, DataType, Decimal, Field, ListOf, Primitive, Schema, Struct
from headrace.expr.check import checked
from headrace.expr.compiled import AggregateCall, AggregateFunction, CompiledAggregate, CompiledScalar
from headrace.expr.scope import Scope
from headrace.expr.sql.parse import offset_of, source_text, text_of, tree_of
from headrace.expr.sql.translate import AGGREGATES, Translator
from headrace.expr.terms.coercion import is_number
from headrace.expr.terms.term import Term


class AggregateCompiler:
    """Compiles the aggregates of one step. Equal calls share a slot, whichever expressions contain them."""

    def __init__(self, scope: Scope, keys: Sequence[str]) -> None:
        self._scope = scope
        self._outer = replace(scope, has_time=False, excluded=frozenset(scope.schema.names) - frozenset(keys))
        self._calls: dict[str, tuple[AggregateCall, bool]] = {}

    def compile(self, name: str, source: str | exp.Expr) -> CompiledAggregate:
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
        arguments = list(node.expressions)
        distinct = len(arguments) == 1 and isinstance(arguments[0], exp.Distinct)
        if distinct:
            arguments = list(arguments[0].expressions)
        if len(arguments) != 1:
            raise _at(node, f"{function} takes one argument")
        if isinstance(arguments[0], exp.Star):
            if function is not AggregateFunction.COUNT or distinct:
                raise _at(node, "`*` stands only in count(*)")
            return AggregateCall(
                function, None, distinct=False, where=condition, slot=slot, type=Primitive.INT64
            ), False
        argument = self._scalar(arguments[0])
        if distinct and isinstance(argument.type, ListOf | Struct):
            raise _at(node, f"distinct takes no {argument.type}", "take a field or an element of it")
        dtype = _result_type(function, argument.type, node)
        call = AggregateCall(function, argument, distinct=distinct, where=condition, slot=slot, type=dtype)
        return call, _nullable(call)

    def _scalar(self, node: exp.Expr) -> CompiledScalar:
        """An argument: a scalar over the input columns."""
        for inner in node.walk():
            if isinstance(inner, exp.Anonymous) and str(inner.this).lower() in AGGREGATES:
                raise _at(inner, "an aggregate cannot stand inside another one")
        term = Translator(self._scope).term(node)
        term.known_type()
        return checked(source_text(node), term, self._scope.schema)


def compile_step(
    aggregates: Mapping[str, str | exp.Expr], scope: Scope, keys: Sequence[str]
) -> tuple[CompiledAggregate, ...]:
    """All aggregates of a step, in order. `keys`: names that the rows have for the key columns."""
    compiler = AggregateCompiler(scope, keys)
    return tuple(compiler.compile(name, source) for name, source in aggregates.items())


def _result_type(function: AggregateFunction, dtype: DataType, node: exp.Expr) -> DataType:
    match function:
        case AggregateFunction.COUNT:
            return Primitive.INT64
        case AggregateFunction.FIRST | AggregateFunction.LAST:
            return dtype
        case AggregateFunction.MIN | AggregateFunction.MAX:
            if isinstance(dtype, ListOf | Struct):
                raise _at(node, f"{function}: values of type {dtype} have no order")
            return dtype
        case _:
            return _number_type(function, dtype, node)


def _number_type(function: AggregateFunction, dtype: DataType, node: exp.Expr) -> DataType:
    if not is_number(dtype):
        remedy = "count them: count(*) filter (where x)" if dtype == Primitive.BOOL else None
        raise _at(node, f"{function} needs numbers, not {dtype}", remedy)
    if function is not AggregateFunction.SUM or dtype in FLOAT_TYPES:
        return Primitive.FLOAT64
    if dtype in INT_TYPES:
        return Primitive.INT64
    assert isinstance(dtype, Decimal), "the numbers are integers, floats and decimals"
    return Decimal(38, dtype.scale)


def _nullable(call: AggregateCall) -> bool:
    """Whether the call's result can be NULL. A group has at least one row, so only NULL arguments, a filter, or a
    sample of one row make it NULL."""
    if call.function is AggregateFunction.COUNT:
        return False
    if call.function in (AggregateFunction.VAR, AggregateFunction.STDDEV):
        return True
    assert call.argument is not None, "only count(*) has no argument"
    return call.argument.nullable or call.where is not None


def _at(node: exp.Expr, message: str, remedy: str | None = None) -> ExpressionError:
    return ExpressionError(message, offset=offset_of(node), remedy=remedy)
