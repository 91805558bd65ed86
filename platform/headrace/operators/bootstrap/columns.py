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

`GivenPartials` computes the state columns from supplied rows; every row is its own group. Knows nothing of validation
(`bootstrap.state`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

import polars as pl

from headrace.core.batch import TS
from headrace.core.types import TIMESTAMP, DataType, ListOf, Primitive
from headrace.expr.compiled import CompiledAggregate
from headrace.operators.aggregates.given import Becomes, GivenColumn, LaneOf, PositionOf, SquaresOf, ValuesOf
from headrace.operators.aggregates.layout import Layout
from headrace.operators.aggregates.needs import Values, normal_value
from headrace.operators.bootstrap.spread import GivenSpread

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


_BEFORE_ALL: Mapping[int, str | int] = {1: "", 2: "", 3: 0, 4: 0, 5: 0}
"""The position, by number of the order column, of a supplied row without one. It lies before all rows with the same
event time, because no source has an empty name."""
_BEFORE_ARRIVALS = -(1 << 62)
"""First arrival number of supplied rows: before all real arrivals."""


class GivenPartials:
    """Computes state columns from validated rows.

    arrived   for steps whose first and last are ordered by arrival: an expression for the arrival number of a supplied
              row; None: they are ordered by event time
    """

    def __init__(self, layout: Layout, columns: Sequence[GivenColumn], arrived: pl.Expr | None) -> None:
        self._layout = layout
        self._columns = {column.becomes: column for column in columns if column.becomes is not None}
        self._arrived = arrived

    def name_of(self, becomes: Becomes) -> str:
        """The name of the column that fills this state."""
        return self._columns[becomes].name

    def spread_of(self, squares: SquaresOf) -> tuple[str, str]:
        """The columns of the count and of the sum that belong to a sum of squares."""
        return self.name_of(LaneOf(squares.rows)), self.name_of(LaneOf(squares.total))

    def aggregates(self, rows: pl.DataFrame) -> list[pl.Series]:
        """The state columns of the aggregates themselves. Raises ImpossibleSpreadError."""
        made: list[pl.Series] = []
        for becomes, column in self._columns.items():
            match becomes:
                case LaneOf(lane):
                    values = _working(rows.get_column(column.name), column.type)
                    made += self._layout.lane(lane).supplied(values)
                case SquaresOf():
                    if column.name in rows.columns:
                        made += self._spread(rows, becomes).columns()
                case PositionOf():
                    made += self._place(rows, column, becomes)
                case ValuesOf():
                    pass  # they are a separate state: `values`
                case _:
                    assert_never(becomes)
        return made

    def values(self, rows: pl.DataFrame, by: Sequence[str], values: Values) -> pl.DataFrame:
        """The values of one argument, by the grouping columns."""
        column = self._columns[ValuesOf(values.state)]
        assert isinstance(column.type, ListOf), "values are given as lists"
        argument = values.column
        flat = rows.select(*by, pl.col(column.name).alias(argument)).explode(argument)
        normal = normal_value(pl.col(argument), column.type.inner).alias(argument)
        return values.partial(flat.with_columns(normal), by).sort(*by, argument)

    def _spread(self, rows: pl.DataFrame, becomes: SquaresOf) -> GivenSpread:
        count, total = (rows.get_column(name) for name in self.spread_of(becomes))
        return GivenSpread(becomes, count, total, rows.get_column(self.name_of(becomes)))

    def _place(self, rows: pl.DataFrame, column: GivenColumn, becomes: PositionOf) -> list[pl.Series]:
        """The state columns of a column of a position: the value and, for steps ordered by arrival, its arrival
        number; or one part of its position."""
        prefix, index, leading = becomes.prefix, becomes.index, becomes.leading
        given = rows.get_column(self.name_of(replace(becomes, index=None))).is_not_null()
        values = rows.get_column(column.name)
        if index is None:
            made = [values.alias(f"{prefix}.v")]
            if self._arrived is not None:
                came = rows.select((self._arrived + _BEFORE_ARRIVALS).cast(pl.Int64)).to_series()
                made.append(_only(came, given).alias(f"{prefix}.{leading}"))
            return made
        if index < leading:
            return [_only(_working(values, column.type), given).alias(f"{prefix}.{index}")]
        if index == leading:
            return [values.dt.epoch("ms").alias(f"{prefix}.{index}")]
        return [_only(values.fill_null(_BEFORE_ALL[index - leading]), given).alias(f"{prefix}.{index}")]


def _only(values: pl.Series, where: pl.Series) -> pl.Series:
    return values.zip_with(where, pl.Series([None], dtype=values.dtype).new_from_index(0, len(values)))


def _working(values: pl.Series, dtype: DataType) -> pl.Series:
    """Values as lanes read them: normal floats, event time in ms."""
    if values.name == TS:
        return values.dt.epoch("ms")
    return values.to_frame().select(normal_value(pl.col(values.name), dtype)).to_series()
