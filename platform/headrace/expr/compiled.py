"""The compiler's results, as plans and operators use them: scalars and aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import polars as pl

from headrace.core.types import DataType
from headrace.expr.aggregates.function import AggregateFunction


@dataclass(frozen=True, slots=True)
class CompiledScalar:
    """A scalar expression over a schema's columns.

    value        polars expression; its result has exactly the polars type of `type`. Evaluate it with `with_columns`:
                 `select` yields one row for an expression that reads no column
    fails        boolean polars expression, True for rows in which the expression fails (a cast that does not fit, an
                 overflow), where `value` is arbitrary. None if it cannot fail
    columns      visible columns that it reads
    uses_time    it calls now(): the row's event time
    not_replayable   the reason why it is not deterministic (random(), uuid()), or None
    """

    text: str
    type: DataType
    nullable: bool
    value: pl.Expr
    fails: pl.Expr | None
    columns: frozenset[str]
    uses_time: bool = False
    not_replayable: str | None = None


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate call inside an aggregate expression.

    arguments   its operands; none: count(*). A row with a NULL in one of them does not count
    distinct    each distinct value counts once
    where       `filter (where ..)`: only rows for which it is true count; None: every row
    slot        name of the column that holds the call's result for `CompiledAggregate.finish`, e.g. `__a0`
    type        result type
    shares      its literals from 0 to 1
    """

    function: AggregateFunction
    arguments: tuple[CompiledScalar, ...]
    distinct: bool
    where: CompiledScalar | None
    slot: str
    type: DataType
    shares: tuple[Fraction, ...] = ()

    @property
    def argument(self) -> CompiledScalar | None:
        """The first operand; None: count(*)."""
        return self.arguments[0] if self.arguments else None


@dataclass(frozen=True, slots=True)
class CompiledAggregate:
    """`name: <aggregate expression>`: scalars over aggregate calls and key columns, such as sum(a) / count(*).

    finish    polars expression over the slots of `calls` and the key columns
    fails     boolean expression over the same, True where `finish` fails; None if it cannot fail
    """

    name: str
    text: str
    type: DataType
    nullable: bool
    calls: tuple[AggregateCall, ...]
    finish: pl.Expr
    fails: pl.Expr | None


def all_calls(aggregates: Sequence[CompiledAggregate]) -> tuple[AggregateCall, ...]:
    """The distinct calls of several aggregates of one step: equal calls share a slot."""
    calls = {call.slot: call for aggregate in aggregates for call in aggregate.calls}
    return tuple(calls.values())
