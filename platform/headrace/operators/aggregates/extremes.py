"""min and max: the least and the greatest value; of floats, NaN is the greatest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from headrace.core.types import FLOAT_TYPES, polars_type
from headrace.expr.compiled import AggregateCall
from headrace.kernels.arrow_columns import Form as ColumnForm
from headrace.kernels.arrow_columns import value_form
from headrace.kernels.group.group_by import Action, Aggregate
from headrace.operators.aggregates.columns import MAX, MIN, NANMAX
from headrace.operators.aggregates.given import GivenColumn, LaneOf, meaning
from headrace.operators.aggregates.needs import Form, StateNeeds
from headrace.operators.aggregates.state import Finished, by_row, column_of


@dataclass(frozen=True, slots=True)
class Extreme:
    """The least or greatest value of a column."""

    id: str
    column: str
    greatest: bool
    floating: bool

    @property
    def name(self) -> str:
        """The state column; its prefix determines how it merges."""
        return f"{MIN if not self.greatest else NANMAX if self.floating else MAX}{self.id}"

    def prepare(self, rows: pl.DataFrame) -> list[pl.Series]:
        """Nothing."""
        return []

    def partial(self) -> list[pl.Expr]:
        """polars' `min` ignores NaN unless all values are NaN; `nan_max` returns NaN if any value is."""
        column = pl.col(self.column)
        value = column.min() if not self.greatest else column.nan_max() if self.floating else column.max()
        return [value.alias(self.name)]

    def aggregate(self, dtype: pl.DataType) -> Aggregate | None:
        """The value, for numbers and times. The kernel normalizes zeros and NaN itself."""
        if value_form(dtype) is ColumnForm.ANY:
            return None
        return Aggregate(Action.MAX if self.greatest else Action.MIN, self.name, self.column, dtype)

    def supplied(self, values: pl.Series) -> list[pl.Series]:
        """The value."""
        return by_row(self, values)


@dataclass(frozen=True, slots=True)
class ExtremeState:
    """The state of a call."""

    call: AggregateCall
    extreme: str
    is_one_value: bool = True

    def given(self) -> Sequence[GivenColumn]:
        """The value."""
        assert self.call.argument is not None, "extremes have an argument"
        name = self.call.function.name
        dtype = self.call.argument.type
        return [GivenColumn(name, dtype, meaning(name, self.call), nullable=True, becomes=LaneOf(self.extreme))]

    def finish(self, merged: pl.DataFrame) -> Finished:
        """The value."""
        kind = polars_type(self.call.type)
        names = [f"{prefix}{self.extreme}" for prefix in (MIN, MAX, NANMAX)]
        name = next((name for name in names if name in merged.columns), names[0])
        return Finished(column_of(merged, name, kind).cast(kind).alias(self.call.slot))


def state(call: AggregateCall, needs: StateNeeds) -> ExtremeState:
    """The state of a call. Extremes of distinct values are those of all values."""
    assert call.argument is not None, "extremes have an argument"
    column = needs.argument(call, Form.NORMAL)
    greatest, floating = call.function.name == "max", call.argument.type in FLOAT_TYPES
    return ExtremeState(
        call, needs.lane(call.function.name, column, lambda name: Extreme(name, column, greatest, floating))
    )
