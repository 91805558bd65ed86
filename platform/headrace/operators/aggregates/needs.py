"""The state that the calls of a step need: argument columns, lanes, positions and values. Equal needs are shared.

The name of a state column is made of its content (argument, filter, form, type), never of an aggregate's position or
name. So state fits a step whose aggregates were added, dropped, renamed or reordered.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import polars as pl

from headrace.core.batch import ORDER_COLUMNS, TS
from headrace.core.types import FLOAT_TYPES, DataType, Primitive
from headrace.expr.compiled import AggregateCall, CompiledScalar
from headrace.operators.aggregates import columns
from headrace.operators.aggregates.columns import ROWS, SUM
from headrace.operators.aggregates.compiled import compiled_groups, merged_groups
from headrace.operators.aggregates.position import PositionedValue
from headrace.operators.aggregates.state import Lane

ARRIVAL = "__arrival"
"""Working column: the number of rows that arrived earlier."""
COUNTS = f"{SUM}values.{ROWS}"
"""State column: the rows with a value."""

Order = Literal["event", "arrival"]
Fold = Callable[[pl.DataFrame, Sequence[str]], pl.DataFrame]
"""(values with their groups, sorted by group and value; grouping columns) -> state columns per group."""


class Form(StrEnum):
    """The form of an argument's values in the working rows. NORMAL: equal values are the same bits. BITS: 0 and 1."""

    RAW = "raw"
    NORMAL = "normal"
    DOUBLE = "double"
    BITS = "bits"


@dataclass(slots=True)
class Values:
    """The distinct values of an argument per group, a part of the state of its own: (group, value) rows.

    is_counted  the rows have the number of input rows with the value, in COUNTS
    lanes       aggregates that count each value once
    folds       further aggregates over the values
    """

    column: str
    is_counted: bool = False
    lanes: dict[tuple[str, str | None], Lane] = field(default_factory=dict)
    folds: dict[str, Fold] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """The name of the state in snapshots."""
        return f"{'counts' if self.is_counted else 'distinct'}_{self.column.removeprefix('__v_')}"

    def add_fold(self, column: str, fold: Fold) -> None:
        """Adds an aggregate over the values. column: its state column, by whose name it is merged (`columns`)."""
        assert columns.merge_expression(column) is not None, f"{column}: a merge drops columns without a known prefix"
        self.folds[column] = fold

    def partial(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """The values of each group of rows."""
        values = rows.select(*by, self.column).drop_nulls(self.column)
        if self.is_counted:
            return columns.group(values, [*by, self.column], [pl.len().cast(pl.Int64).alias(COUNTS)])
        return self._merged([values], by)

    def merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        """The values of each group, from several frames of them."""
        names = [*by, self.column, *([COUNTS] if self.is_counted else [])]
        return self._merged([frame.select(names) for frame in frames], by)

    def _merged(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        keys = [*by, self.column]
        merged = merged_groups(frames, keys)
        if merged is not None:
            return merged
        return columns.merge(frames, keys) if self.is_counted else columns.concat(frames).unique()

    def owns(self, column: str) -> bool:
        """Whether a state column belongs to the part."""
        return column == self.column or (self.is_counted and column == COUNTS)

    def fold(self, values: pl.DataFrame, by: Sequence[str]) -> list[pl.DataFrame]:
        """Merged values as partial aggregates."""
        lanes, frames = list(self.lanes.values()), list[pl.DataFrame]()
        if self.folds:
            values = values.sort([*by, self.column])
            frames = [fold(values, by) for fold in self.folds.values()]
        if lanes:
            kernel = compiled_groups(by, lanes, values.schema, {}) if values.height else None
            frames.append(partial_of(lanes, values, by) if kernel is None else kernel.partial(values, by))
        return frames


class StateNeeds:
    """Collects what the calls of one step need."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.order_columns = (ARRIVAL,) if order == "arrival" else (TS, *ORDER_COLUMNS)
        self.lanes: dict[tuple[str, str | None], Lane] = {}
        self.positions: dict[str, PositionedValue] = {}
        self.values: dict[str, Values] = {}
        self.arguments: dict[tuple[str, ...], tuple[str, pl.Expr]] = {}
        self.sources: dict[str, str] = {}
        """Arguments that are columns of the batch as they are: name -> the batch's column."""

    def argument(self, call: AggregateCall, form: Form, index: int = 0) -> str:
        """The working column of a call's argument: its value where the filter holds, else NULL. `count(*)` has a
        constant.

        A row counts only if all arguments have a value, so a column of one of several arguments is NULL where another
        one is.
        """
        argument = call.arguments[index] if call.arguments else None
        others = [other for other in call.arguments if other is not argument]
        text = argument.text if argument else "*"
        beside = [part for other in others for part in (other.text, str(other.type))]
        key = (text, call.where.text if call.where else "", form.value, *beside)
        if key not in self.arguments:
            name = _argument_name(*key[:3], str(argument.type) if argument else "", *beside)
            value = _in_form(argument, form) if argument else pl.lit(value=True)
            for other in others:
                value = pl.when(other.value.is_not_null()).then(value)
            if call.where:
                value = pl.when(call.where.value).then(value)
            elif argument and not others and form is not Form.BITS and argument.value.meta.is_column():
                # the kernel widens and normalizes floats itself
                self.sources[name] = argument.value.meta.output_name()
            self.arguments[key] = (name, value)
        return self.arguments[key][0]

    def values_of(self, column: str, *, is_counted: bool) -> Values:
        """The part of the state with the values of an argument column."""
        values = Values(column, is_counted)
        return self.values.setdefault(values.state, values)

    def lane(self, kind: str, column: str | None, make: Callable[[str], Lane], values: Values | None = None) -> str:
        """The id of a lane; `make` makes it, if no call has asked for it yet. values: each of them counts once."""
        lanes = self.lanes if values is None else values.lanes
        if (kind, column) not in lanes:
            name = f"{'' if values is None else 'distinct_'}{column[2:] if column else 'all'}_{kind}"
            lanes[kind, column] = make(name)
        return lanes[kind, column].id

    def position(self, prefix: str, column: str, leading: tuple[str, ...] = ()) -> str:
        """The prefix of a value with its position in the order of `leading` columns, then in the total order of
        rows."""
        self.positions.setdefault(prefix, PositionedValue(prefix, column, (*leading, *self.order_columns)))
        return prefix


def _in_form(argument: CompiledScalar, form: Form) -> pl.Expr:
    match form:
        case Form.RAW:
            return argument.value
        case Form.NORMAL:
            return normal_value(argument.value, argument.type)
        case Form.DOUBLE:
            return argument.value.cast(pl.Float64)
        case Form.BITS:
            return argument.value.cast(pl.Int32)


def _argument_name(text: str, where: str, form: str, dtype: str, *beside: str) -> str:
    """A stable name per argument, independent of the step's other aggregates. Its prefix is readable; the digest
    identifies it."""
    digest = hashlib.blake2b("\0".join((text, where, form, dtype, *beside)).encode(), digest_size=6).hexdigest()
    slug = re.sub(r"[^a-z0-9]+", "_", text.lower())[:24].strip("_")
    return f"__v_{slug}_{digest}" if slug else f"__v_{digest}"


def normal_value(value: pl.Expr, dtype: DataType) -> pl.Expr:
    """The value in a form that is the same for all equal values: no negative zero, one NaN."""
    if dtype not in FLOAT_TYPES:
        return value
    kind = pl.Float32 if dtype is Primitive.FLOAT32 else pl.Float64
    nan, zero = pl.lit(math.nan, dtype=kind), pl.lit(0.0, dtype=kind)
    return pl.when(value.is_nan()).then(nan).when(value == zero).then(zero).otherwise(value)


def prepared(lanes: Sequence[Lane], rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the columns that lanes prepare."""
    made = [column for lane in lanes for column in lane.prepare(rows)]
    return rows.with_columns(made) if made else rows


def partial_of(lanes: Sequence[Lane], rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Working rows as partial aggregates per group, by polars."""
    rows = prepared(lanes, rows)
    return columns.group(rows, by, lane_expressions(lanes, rows))


def lane_expressions(lanes: Sequence[Lane], rows: pl.DataFrame) -> list[pl.Expr]:
    """Expressions for the state columns of lanes, over prepared rows."""
    return [
        *(made for lane in lanes for made in lane.partial()),
        *(pl.col(name).sum().cast(pl.Int64) for name in rows.columns if name.startswith(SUM)),
    ]
