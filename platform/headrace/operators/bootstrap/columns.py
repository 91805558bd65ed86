"""The columns that a user supplies for the aggregates of a step, and the state columns that they become. Pure.

    opening: first(price)          opening, opening.ts, and the row's place: opening.source, .topic, .partition, .offset
    best: arg_max(item, price)     best, best.by (the price), and the row's place
    n: count(*)                    n
    mean: avg(price)               mean.sum, mean.count
    spread: var(price)             spread.count, spread.sum, and spread.squares or spread.m2
    shops: count(distinct shop)    shops.values
    mid: median(price)             mid.values, each as often as it occurs

A column has the aggregate's name if the aggregate is a single call whose state is one value. Further values of a call
are named `<aggregate>.<part>`. Calls that share state share a column, which has the name of the plain call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from headrace.core.types import TIMESTAMP, DataType, Primitive
from headrace.expr.compiled import CompiledAggregate
from headrace.operators.aggregates.given import Becomes, GivenColumn, PositionOf
from headrace.operators.aggregates.layout import Layout

_PLACES: tuple[tuple[str, DataType, str], ...] = (
    ("ts", TIMESTAMP, "event time of the row of {0}"),
    ("source", Primitive.STRING, "source of that row (of a step's row: the step)"),
    ("topic", Primitive.STRING, "topic of that row (of a step's row: its key as JSON)"),
    ("partition", Primitive.INT64, "partition of that row (of a step's row: its window's start in epoch ms)"),
    ("offset", Primitive.INT64, "offset of that row (of a step's row: 0)"),
    ("index", Primitive.INT64, "number of that row among those that `explode` made of one"),
)
"""Parts of a row's position, in the order of `PositionOf.index`: name, type, description."""


def aggregate_columns(
    compiled: Sequence[CompiledAggregate], layout: Layout, *, placed: bool
) -> tuple[GivenColumn, ...]:
    """The columns of a step's aggregates, in the order in which they are shown.

    placed   first and last use the total order of rows, not the order of arrival
    """
    by_slot = {state.call.slot: state for state in layout.calls}
    must = {column.becomes for state in layout.calls for column in state.given() if column.required}
    named = _Named()
    for item in compiled:
        if len(item.calls) == 1 and item.finish.meta.is_column():
            state = by_slot[item.calls[0].slot]
            if state.is_one_value:
                named.add(state.given()[0], item.name, placed=placed)
    for item in compiled:
        for call in item.calls:
            for column in by_slot[call.slot].given():
                # a column that two calls share is required if one of them requires it
                required = column.becomes in must
                named.add(replace(column, required=required), f"{item.name}.{column.name}", placed=placed)
    return named.columns


class _Named:
    """Columns with unique names; a column that two calls need appears once."""

    def __init__(self) -> None:
        self._found: dict[Becomes, GivenColumn] = {}

    @property
    def columns(self) -> tuple[GivenColumn, ...]:
        return tuple(self._found.values())

    def add(self, column: GivenColumn, name: str, *, placed: bool) -> None:
        if column.becomes is None or column.becomes in self._found:
            return
        made = replace(column, name=self._free(name))
        self._found[column.becomes] = made
        if placed and isinstance(column.becomes, PositionOf) and column.becomes.index is None:
            for part in _place(column.becomes, made.name):
                assert part.becomes is not None, "places become state"
                self._found[part.becomes] = replace(part, name=self._free(part.name))

    def _free(self, name: str) -> str:
        taken = {column.name for column in self._found.values()}
        number = 1
        while (tried := name if number == 1 else f"{name}{number}") in taken:
            number += 1
        return tried


def _place(value: PositionOf, name: str) -> Iterable[GivenColumn]:
    for index, (part, dtype, meaning) in enumerate(_PLACES):
        yield GivenColumn(
            f"{name}.{part}",
            dtype,
            meaning.format(name),
            required=index == 0,
            nullable=True,
            becomes=replace(value, index=value.leading + index),
        )
