"""count: the number of rows with a value, or of distinct values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from headrace.core.types import Primitive, polars_type
from headrace.expr.compiled import AggregateCall
from headrace.kernels.group.group_by import Action, Aggregate
from headrace.operators.aggregates.columns import ROWS, SUM
from headrace.operators.aggregates.given import GivenColumn, LaneOf, given_values, meaning
from headrace.operators.aggregates.needs import Form, StateNeeds, Values
from headrace.operators.aggregates.state import Finished, counts_of


@dataclass(frozen=True, slots=True)
class Count:
    """The number of rows with a value; `column` None: of all rows."""

    id: str
    column: str | None

    def prepare(self, rows: pl.DataFrame) -> list[pl.Series]:
        """Nothing."""
        return []

    def partial(self) -> list[pl.Expr]:
        """The count."""
        counted = pl.len() if self.column is None else pl.col(self.column).count()
        return [counted.cast(pl.Int64).alias(f"{SUM}{self.id}.{ROWS}")]

    def aggregate(self, dtype: pl.DataType) -> Aggregate | None:
        """The count."""
        action = Action.COUNT_ROWS if self.column is None else Action.COUNT
        return Aggregate(action, f"{SUM}{self.id}.{ROWS}", self.column, dtype)

    def supplied(self, values: pl.Series) -> list[pl.Series]:
        """The count; 0 for NULL."""
        return [values.fill_null(0).alias(f"{SUM}{self.id}.{ROWS}")]


@dataclass(frozen=True, slots=True)
class CountState:
    """The state of a call. rows: the lane; values: the distinct values that it counts, None: rows."""

    call: AggregateCall
    rows: str
    values: Values | None

    @property
    def is_one_value(self) -> bool:
        """Not of distinct values."""
        return self.values is None

    def given(self) -> Sequence[GivenColumn]:
        """The count, or the distinct values."""
        if self.values is not None:
            return [given_values(self.call, self.values.state, is_counted=False)]
        return [given_count(self.call, self.rows, required=True)]

    def finish(self, merged: pl.DataFrame) -> Finished:
        """The count, 0 without rows."""
        return Finished(counts_of(merged, self.rows).cast(polars_type(self.call.type)).alias(self.call.slot))


def state(call: AggregateCall, needs: StateNeeds) -> CountState:
    """The state of a call."""
    if call.argument is None:
        return CountState(call, count_lane(needs, None if call.where is None else needs.argument(call, Form.RAW)), None)
    column = needs.argument(call, Form.NORMAL if call.distinct else Form.RAW)
    values = needs.values_of(column, is_counted=False) if call.distinct else None
    return CountState(call, count_lane(needs, column, values), values)


def count_lane(needs: StateNeeds, column: str | None, values: Values | None = None) -> str:
    """The id of the lane that counts the rows with a value in a column; None: all rows."""
    return needs.lane("count", column, lambda name: Count(name, column), values)


def given_count(call: AggregateCall, rows: str, *, required: bool) -> GivenColumn:
    """The number of rows that count."""
    return GivenColumn("count", Primitive.INT64, meaning("count", call), required=required, becomes=LaneOf(rows))
