"""The layout of a step's state: the columns that its aggregate calls need, and the computation of partial frames from
batches.

Owns the mapping from aggregate calls to argument columns, lanes (`lanes`) and distinct values; calls with equal needs
share them. Knows nothing of windows: the caller passes the grouping columns.

The name of a state column is made of its content (argument, filter, form, type), never of an aggregate's position or
name. So state fits a step whose aggregates were added, dropped, renamed or reordered.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import polars as pl

from headrace.core.batch import ORDER_COLUMNS, TS
from headrace.core.types import FLOAT_TYPES, DataType, Decimal, Field, Primitive
from headrace.expr.compiled import AggregateCall, AggregateFunction, CompiledAggregate, all_calls
from headrace.operators.aggregates import columns, position
from headrace.operators.aggregates.columns import SUM
from headrace.operators.aggregates.compiled import CompiledGroups, compiled_groups, merged_groups
from headrace.operators.aggregates.lanes import Count, Extreme, FloatSum, Lane, WholeSquares, WholeSum

ARRIVAL = "__arrival"
"""Working column: the number of rows that arrived earlier."""

Order = Literal["event", "arrival"]
_F = AggregateFunction
_AVERAGES = (_F.AVG, _F.VAR, _F.VAR_POP, _F.STDDEV, _F.STDDEV_POP)
_SPREADS = (_F.VAR, _F.VAR_POP, _F.STDDEV, _F.STDDEV_POP)


class StatePart(Protocol):
    """One part of a step's state: computes partial rows from rows, and merges partial rows."""

    def partial(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Partial rows per group of working rows."""
        ...

    def merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        """Fewer partial rows with the same meaning; at least one frame."""
        ...

    def owns(self, column: str) -> bool:
        """Whether a state column (not a grouping column) belongs to the part."""
        ...


@dataclass(frozen=True, slots=True)
class CallState:
    """The state columns of a call: ids of its lanes, or the prefix of its position (`place`). `distinct`: the argument
    column whose distinct values the lanes read."""

    call: AggregateCall
    rows: str | None = None
    total: str | None = None
    squares: str | None = None
    extreme: str | None = None
    place: str | None = None
    distinct: str | None = None


@dataclass(slots=True)
class LaneSet:
    """Lanes over one set of rows; calls with equal needs share a lane."""

    lanes: dict[tuple[str, str | None], Lane] = field(default_factory=dict)


@dataclass(slots=True)
class DistinctValues:
    """An argument of which each distinct value counts once per group: a part of the state with (group, value) rows."""

    column: str
    lanes: LaneSet = field(default_factory=LaneSet)

    def partial(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """The distinct values of each group of rows."""
        return self._unique([rows.select(*by, self.column).drop_nulls(self.column)], by)

    def merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        """The distinct values of each group, from several frames of them."""
        return self._unique([frame.select(*by, self.column) for frame in frames], by)

    def _unique(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        unique = merged_groups(frames, [*by, self.column])
        return columns.concat(frames).unique() if unique is None else unique

    def owns(self, column: str) -> bool:
        """Whether a state column belongs to the part."""
        return column == self.column

    def fold(self, values: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Distinct values as partial aggregates."""
        compiled = compiled_groups(by, list(self.lanes.lanes.values()), values.schema, {}) if values.height else None
        if compiled is not None:
            return compiled.partial(values, by)
        return _partial(list(self.lanes.lanes.values()), values, by)


class Layout:
    """The state columns of a step's aggregates."""

    def __init__(
        self,
        aggregates: Sequence[CompiledAggregate],
        keys: Sequence[Field],
        order: Order = "event",
        *,
        latest: str | None = None,
    ) -> None:
        """`latest`: name of a state column for the greatest event time of a group."""
        self.keys = [item.name for item in keys]
        self.places: list[position.PositionedValue] = []
        self.distinct: dict[str, DistinctValues] = {}
        self._order = order
        self._order_columns = (ARRIVAL,) if order == "arrival" else (TS, *ORDER_COLUMNS)
        self._key_columns = [normal_value(pl.col(item.name), item.type).alias(item.name) for item in keys]
        self._arguments: dict[tuple[str, ...], tuple[str, pl.Expr]] = {}
        self._sources: dict[str, str] = {}
        """Arguments that are columns of the batch as they are: name -> the batch's column."""
        self._direct = LaneSet()
        self.calls = [self._state_of(call) for call in all_calls(aggregates)]
        if not (self._direct.lanes or self.places):
            self._lane(self._direct, "count", None, None)  # a group exists even if no aggregate has state
        self._lanes = list(self._direct.lanes.values())
        if latest is not None:
            assert latest.startswith(columns.MAX), "the name says how the column merges"
            self._lanes.append(Extreme(latest.removeprefix(columns.MAX), TS, greatest=True, floating=False))
        ordered = [*self._order_columns] if self.places else []
        self._working = [*self._key_columns, *(made.alias(name) for name, made in self._arguments.values())]
        self._extra = [name for name in ordered if name not in (TS, ARRIVAL)]
        self._arrival = ARRIVAL in ordered
        self._plain = self._sources.keys() == {name for name, _ in self._arguments.values()}
        self._compiled: CompiledGroups | None = None
        self._is_decided = False
        self.arrived = 0
        """Rows received so far; counted only if arrival is the order."""
        self._ids = frozenset([*(lane.id for lane in self._lanes), *(lane_of(place.prefix) for place in self.places)])

    @property
    def lanes(self) -> frozenset[str]:
        """Ids of the aggregates' own lanes, without those over distinct values."""
        return self._ids

    def lane(self, name: str) -> Lane:
        """The aggregates' own lane with this id."""
        return next(lane for lane in self._lanes if lane.id == name)

    @property
    def parts(self) -> tuple[StatePart, ...]:
        """The aggregates, then one part per argument whose distinct values count."""
        return (self, *self.distinct.values())

    def compiled(self, batch: pl.DataFrame) -> CompiledGroups | None:
        """The kernel's groups of this step, decided by the types of its first batch; None: polars' path is taken."""
        if not self._is_decided:
            self._is_decided = True
            if not (self.places or self.distinct):
                rows = batch if self._plain else batch.clear().select(TS, *self._working)
                sources = self._sources if self._plain else {}
                self._compiled = compiled_groups(self.keys, self._lanes, rows.schema, sources)
        return self._compiled

    def rows(self, batch: pl.DataFrame) -> pl.DataFrame:
        """The working rows of a batch: event time, keys in normal form, arguments, prepared columns, order columns.

        The kernel prepares no columns, and it reads arguments that are columns of the batch from the batch itself.
        """
        if self.compiled(batch) is not None:
            return batch if self._plain else batch.select(TS, *self._working)
        rows = batch.select(TS, *self._working, *self._extra)
        if self._arrival:
            start, self.arrived = self.arrived, self.arrived + batch.height
            rows = rows.with_columns(pl.int_range(start, self.arrived, dtype=pl.Int64).alias(ARRIVAL))
        prepared = [made for lane in self._lanes for made in lane.prepare(rows)]
        return rows.with_columns(prepared) if prepared else rows

    def partial(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Working rows as partial aggregates per group."""
        if self._compiled is not None:
            return self._compiled.partial(rows, by)
        return _partial(self._lanes, rows, by, self.places, prepared=True)

    def merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        """Merges partial aggregates of equal groups."""
        merged = merged_groups(frames, by)
        return columns.merge(frames, by) if merged is None else columns.carried(merged)

    def owns(self, column: str) -> bool:
        """Whether a state column belongs to the step's aggregates."""
        return lane_of(column) in self._ids

    def _state_of(self, call: AggregateCall) -> CallState:
        if call.argument is None:
            column = None if call.where is None else self._argument(call, "raw")
            return CallState(call, rows=self._lane(self._direct, "count", column, None))
        match call.function:
            case _F.FIRST | _F.LAST:
                column = self._argument(call, "raw")
                first = call.function is _F.FIRST
                prefix = f"{position.FIRST if first else position.LAST}{column[2:]}_{call.function}_{self._order}"
                if all(place.prefix != prefix for place in self.places):
                    self.places.append(position.PositionedValue(prefix, column, self._order_columns))
                return CallState(call, place=prefix)
            case _F.MIN | _F.MAX:
                column = self._argument(call, "normal")
                return CallState(
                    call, extreme=self._lane(self._direct, call.function.value, column, call.argument.type)
                )
            case _:
                return self._number_state(call, call.argument.type)

    def _number_state(self, call: AggregateCall, dtype: DataType) -> CallState:
        lanes, column = self._direct, self._argument(call, self._form(call, dtype))
        distinct = column if call.distinct else None
        if distinct is not None:
            lanes = self.distinct.setdefault(distinct, DistinctValues(distinct)).lanes
        rows = self._lane(lanes, "count", column, None)
        if call.function is _F.COUNT:
            return CallState(call, rows=rows, distinct=distinct)
        total = self._lane(lanes, "sum", column, dtype)
        squares = self._lane(lanes, "squares", column, dtype) if call.function in _SPREADS else None
        return CallState(call, rows=rows, total=total, squares=squares, distinct=distinct)

    @staticmethod
    def _form(call: AggregateCall, dtype: DataType) -> str:
        if call.distinct:
            return "normal"
        if dtype in FLOAT_TYPES and call.function is not _F.COUNT:
            return "double"
        return "raw"

    def _argument(self, call: AggregateCall, form: str) -> str:
        """The working column of a call's argument: its value where the filter holds, else NULL."""
        argument, where = call.argument, call.where
        key = (argument.text if argument else "*", where.text if where else "", form)
        if key not in self._arguments:
            value = argument.value if argument else pl.lit(value=True)
            if argument and form == "normal":
                value = normal_value(value, argument.type)
            if form == "double":
                value = value.cast(pl.Float64)
            if where:
                value = pl.when(where.value).then(value)
            name = _argument_name(*key, str(argument.type) if argument else "")
            # the kernel widens and normalizes floats itself
            if argument and not where and argument.value.meta.is_column():
                self._sources[name] = argument.value.meta.output_name()
            self._arguments[key] = (name, value)
        return self._arguments[key][0]

    def _lane(self, lanes: LaneSet, kind: str, column: str | None, dtype: DataType | None) -> str:
        key = (kind, column)
        if key not in lanes.lanes:
            name = f"{'distinct_' if lanes is not self._direct else ''}{column[2:] if column else 'all'}_{kind}"
            lanes.lanes[key] = _new_lane(name, kind, column, dtype)
        return lanes.lanes[key].id


def lane_of(column: str) -> str:
    """The id in a state column's name."""
    return column.split(".")[1] if "." in column else ""


def _argument_name(text: str, where: str, form: str, dtype: str) -> str:
    """A stable name per argument, independent of the step's other aggregates. Its prefix is readable; the digest
    identifies it."""
    digest = hashlib.blake2b("\0".join((text, where, form, dtype)).encode(), digest_size=6).hexdigest()
    slug = re.sub(r"[^a-z0-9]+", "_", text.lower())[:24].strip("_")
    return f"__v_{slug}_{digest}" if slug else f"__v_{digest}"


def _new_lane(name: str, kind: str, column: str | None, dtype: DataType | None) -> Lane:
    if kind == "count":
        return Count(name, column)
    assert column is not None, "only rows are counted without a column"
    assert dtype is not None, "arguments have types"
    if kind in ("min", "max"):
        return Extreme(name, column, greatest=kind == "max", floating=dtype in FLOAT_TYPES)
    if dtype in FLOAT_TYPES:
        return FloatSum(name, column, squares=kind == "squares")
    if kind == "squares":
        return WholeSquares(name, column, _bits(dtype))
    return WholeSum(name, column, wide=_bits(dtype) > 64)


def _bits(dtype: DataType) -> int:
    """An upper bound of the bits of a type's whole numbers."""
    match dtype:
        case Decimal(precision, _):
            return 32 if precision <= 9 else 64 if precision <= 18 else 128
        case Primitive.INT64:
            return 64
        case _:
            return 32


def normal_value(value: pl.Expr, dtype: DataType) -> pl.Expr:
    """The value in a form that is the same for all equal values: no negative zero, one NaN."""
    if dtype not in FLOAT_TYPES:
        return value
    kind = pl.Float32 if dtype is Primitive.FLOAT32 else pl.Float64
    nan, zero = pl.lit(math.nan, dtype=kind), pl.lit(0.0, dtype=kind)
    return pl.when(value.is_nan()).then(nan).when(value == zero).then(zero).otherwise(value)


def _partial(
    lanes: Sequence[Lane],
    rows: pl.DataFrame,
    by: Sequence[str],
    places: Sequence[position.PositionedValue] = (),
    *,
    prepared: bool = False,
) -> pl.DataFrame:
    if not prepared and (made := [column for lane in lanes for column in lane.prepare(rows)]):
        rows = rows.with_columns(made)
    orders: list[pl.Series] = []
    if places:
        rows, orders = position.rank(rows, places)
    expressions = [made for lane in lanes for made in lane.partial()]
    expressions += [pl.col(name).sum().cast(pl.Int64) for name in rows.columns if name.startswith(SUM)]
    grouped = columns.group(rows, by, [*expressions, *(place.pick() for place in places)])
    return position.gather(grouped, rows, places, orders) if places else grouped
