"""The columns that a user supplies for the aggregates of a step, and the state columns that they become. Pure.

    opening: first(price)          opening, opening.ts, and the row's place: opening.source, .topic, .partition, .offset
    n: count(*)                    n
    mean: avg(price)               mean.sum, mean.count
    spread: var(price)             spread.count, spread.sum, and spread.squares or spread.m2
    shops: count(distinct shop)    shops.values

A column has the aggregate's name if the aggregate is a single call whose state is one value. Further values of a call
are named `<aggregate>.<part>`. Calls that share state share a column, which has the name of the plain call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from headrace.core.types import FLOAT_TYPES, TIMESTAMP, DataType, Decimal, ListOf, Primitive
from headrace.expr.compiled import AggregateCall, AggregateFunction, CompiledAggregate
from headrace.operators.aggregates.layout import CallState, Layout

_F = AggregateFunction
_DIGITS_MAX = 38
DEVIATIONS_OF = "sum of squared deviations from the mean"


@dataclass(frozen=True, slots=True)
class LaneOf:
    """The state columns of one lane (`operators.aggregates.lanes`): a count, a sum, a minimum or maximum."""

    lane: str


@dataclass(frozen=True, slots=True)
class SquaresOf:
    """The sum of squares of one lane. `deviations`: the user supplies the sum of squared deviations from the mean
    instead."""

    lane: str
    deviations: bool


@dataclass(frozen=True, slots=True)
class ValuesOf:
    """The distinct values of an argument column."""

    argument: str


@dataclass(frozen=True, slots=True)
class PositionOf:
    """The state of first or last: a value and its row's position in the total order of rows. `index`: number of the
    order column that holds this part of the position; None: the value."""

    prefix: str
    index: int | None = None


Becomes = LaneOf | SquaresOf | ValuesOf | PositionOf


@dataclass(frozen=True, slots=True)
class GivenColumn:
    """A column of the rows that a user supplies.

    type       the step's own type; narrower ones are widened
    meaning    description for people
    required   it must be present
    nullable   it may hold NULL
    becomes    the state that it fills; None: a key or a window bound
    """

    name: str
    type: DataType
    meaning: str
    required: bool = True
    nullable: bool = False
    becomes: Becomes | None = None


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
    named = _Named()
    for item in compiled:
        if len(item.calls) == 1 and item.finish.meta.is_column():
            state = by_slot[item.calls[0].slot]
            if (main := _plain(state)) is not None:
                named.add(main, item.name, placed=placed)
    must = {state.rows for state in layout.calls if state.call.function not in (_F.SUM, _F.MIN, _F.MAX)}
    for item in compiled:
        for state in (by_slot[call.slot] for call in item.calls):
            for column in _needed(state):
                required = column.required and (column.becomes != _lane(state.rows) or state.rows in must)
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
        if placed and isinstance(column.becomes, PositionOf):
            for each in _place(column.becomes.prefix, made.name):
                assert each.becomes is not None, "places become state"
                self._found[each.becomes] = replace(each, name=self._free(each.name))

    def _free(self, name: str) -> str:
        taken = {column.name for column in self._found.values()}
        number = 1
        while (tried := name if number == 1 else f"{name}{number}") in taken:
            number += 1
        return tried


def _plain(state: CallState) -> GivenColumn | None:
    """The column with the aggregate's own name; None if the state is more than one value."""
    if state.distinct is not None or state.call.function is _F.AVG or state.squares is not None:
        return None
    main = state.extreme or (state.rows if state.call.function is _F.COUNT else state.total)
    return next(
        (each for each in _needed(state) if isinstance(each.becomes, PositionOf) or each.becomes == _lane(main)), None
    )


def _needed(state: CallState) -> Iterable[GivenColumn]:
    """The columns of a call, named after its parts."""
    call, argument = state.call, state.call.argument
    if state.distinct is not None:
        assert argument is not None, "distinct values are those of an argument"
        meaning, values = _meaning("distinct values", call), ListOf(argument.type)
        yield GivenColumn("values", values, meaning, nullable=True, becomes=ValuesOf(state.distinct))
        return
    if state.place is not None:
        assert argument is not None, "first and last have an argument"
        name = str(call.function)
        yield GivenColumn(name, argument.type, _meaning(name, call), nullable=True, becomes=PositionOf(state.place))
    if state.extreme is not None:
        assert argument is not None, "extremes have an argument"
        name = str(call.function)
        yield GivenColumn(name, argument.type, _meaning(name, call), nullable=True, becomes=LaneOf(state.extreme))
    if state.total is not None:
        assert argument is not None, "sums have an argument"
        kind = sum_type(argument.type)
        yield GivenColumn("sum", kind, _meaning("sum", call), nullable=True, becomes=LaneOf(state.total))
    if state.rows is not None:
        yield GivenColumn("count", Primitive.INT64, _meaning("count", call), becomes=LaneOf(state.rows))
    if state.squares is not None:
        yield from _squares(state.squares, call)


def _squares(lane: str, call: AggregateCall) -> Iterable[GivenColumn]:
    """Two alternative columns: the sum of squares, which is exact for whole numbers, or the sum of squared deviations,
    which avoids the cancellation of floats."""
    assert call.argument is not None, "spreads have an argument"
    if (kind := squares_type(call.argument.type)) is not None:
        meaning = f"{_meaning('sum of squares', call)}; or m2"
        yield GivenColumn(
            "squares", kind, meaning, required=False, nullable=True, becomes=SquaresOf(lane, deviations=False)
        )
    meaning = _meaning(DEVIATIONS_OF, call) + ("" if kind is None else "; or squares")
    yield GivenColumn(
        "m2", Primitive.FLOAT64, meaning, required=kind is None, nullable=True, becomes=SquaresOf(lane, deviations=True)
    )


def _place(prefix: str, name: str) -> Iterable[GivenColumn]:
    for index, (part, dtype, meaning) in enumerate(_PLACES):
        yield GivenColumn(
            f"{name}.{part}",
            dtype,
            meaning.format(name),
            required=index == 0,
            nullable=True,
            becomes=PositionOf(prefix, index),
        )


def _lane(lane: str | None) -> LaneOf | None:
    return None if lane is None else LaneOf(lane)


def _meaning(what: str, call: AggregateCall) -> str:
    said = f"{what} of {call.argument.text if call.argument else 'rows'}"
    return said if call.where is None else f"{said} where {call.where.text}"


def sum_type(dtype: DataType) -> DataType:
    """The type in which a sum of such values is supplied."""
    if dtype in FLOAT_TYPES:
        return Primitive.FLOAT64
    return Decimal(_DIGITS_MAX, dtype.scale if isinstance(dtype, Decimal) else 0)


def squares_type(dtype: DataType) -> DataType | None:
    """The type in which a sum of squares of such values is supplied; None if no type has enough decimal places."""
    if dtype in FLOAT_TYPES:
        return Primitive.FLOAT64
    scale = 2 * dtype.scale if isinstance(dtype, Decimal) else 0
    return Decimal(_DIGITS_MAX, scale) if scale < _DIGITS_MAX else None
