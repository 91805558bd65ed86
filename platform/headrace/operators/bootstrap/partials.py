"""Supplied rows as partial aggregates: the state columns for each supplied column. Pure.

Owns the conversion from values to state columns. Knows nothing of display names (`bootstrap.columns`) or of validation
(`bootstrap.state`). Every row is its own group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import assert_never

import polars as pl

from headrace.core.batch import TS
from headrace.core.types import DataType, ListOf
from headrace.operators.aggregates.given import Becomes, GivenColumn, LaneOf, PositionOf, SquaresOf, ValuesOf
from headrace.operators.aggregates.layout import Layout
from headrace.operators.aggregates.needs import Values, normal_value
from headrace.operators.bootstrap.spread import GivenSpread

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
