"""The contract of a family of aggregate functions: the lanes of its state, and the state of one call.

A lane is the state columns of one kind of aggregate over one argument column of the working rows (NULL: the row does
not count), with names as specified by `columns`. Calls with equal needs share a lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import polars as pl

from headrace.expr.compiled import AggregateCall
from headrace.kernels.group.group_by import Aggregate
from headrace.operators.aggregates.columns import ROWS, SUM
from headrace.operators.aggregates.given import GivenColumn

_ROW = "__row"


class Lane(Protocol):
    """One aggregate's state over one argument."""

    @property
    def id(self) -> str:
        """Part of the names of its state columns."""
        ...

    @property
    def column(self) -> str | None:
        """The argument column; None: rows are counted."""
        ...

    def prepare(self, rows: pl.DataFrame) -> list[pl.Series]:
        """State columns with one value per row, to be summed per group; for computations beyond polars expressions."""
        ...

    def partial(self) -> list[pl.Expr]:
        """Expressions that compute state columns for a group of rows."""
        ...

    def aggregate(self, dtype: pl.DataType) -> Aggregate | None:
        """The same state columns as an aggregate of the kernel; None if the kernel lacks it. dtype: of the argument."""
        ...

    def supplied(self, values: pl.Series) -> list[pl.Series]:
        """The state columns of groups whose aggregate a user supplies, one value per group."""
        ...


@dataclass(frozen=True, slots=True)
class Finished:
    """A call's results; `overflow` is True for groups whose result does not fit its type (the value is NULL there)."""

    value: pl.Series
    overflow: pl.Series | None = None


class CallState(Protocol):
    """The state of one call."""

    @property
    def call(self) -> AggregateCall:
        """The call."""
        ...

    @property
    def is_one_value(self) -> bool:
        """Whether the first of the supplied columns is the result, so that it has the aggregate's name."""
        ...

    def given(self) -> Sequence[GivenColumn]:
        """The columns that a user supplies, named after their part in the call."""
        ...

    def finish(self, merged: pl.DataFrame) -> Finished:
        """The results for every row (group) of merged state columns, named by the call's slot: computed exactly and
        rounded once. An integer or decimal that overflows is reported, and does not wrap around."""
        ...


def lane_of(column: str) -> str:
    """The id in a state column's name."""
    return column.split(".")[1] if "." in column else ""


def column_of(merged: pl.DataFrame, name: str, kind: pl.DataType) -> pl.Series:
    """A state column; NULL everywhere if no frame had it."""
    if name in merged.columns:
        return merged.get_column(name)
    return pl.Series(name, [None], dtype=kind).new_from_index(0, merged.height)


def filled(numbers: pl.Series) -> pl.Series:
    """Numbers with 0 for NULL. A call of `fill_null` takes longer than all else here for a few groups."""
    return numbers.fill_null(0) if numbers.null_count() else numbers


def counts_of(merged: pl.DataFrame, lane: str) -> pl.Series:
    """The values of a lane that counts rows."""
    return filled(column_of(merged, f"{SUM}{lane}.{ROWS}", pl.Int64()))


def by_row(lane: Lane, values: pl.Series) -> list[pl.Series]:
    """The partial aggregates of a lane where each value is a group."""
    assert lane.column is not None, "values are those of an argument"
    single = values.alias(lane.column).to_frame().with_row_index(_ROW)
    return single.group_by(_ROW).agg(lane.partial()).sort(_ROW).drop(_ROW).get_columns()
