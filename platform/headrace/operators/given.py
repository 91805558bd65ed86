"""The state of an aggregating step out of values that a user gives: one row per key, or per key and window. Pure.

    given = GivenState(config)
    given.columns            what the rows must hold
    given.fitted(frame)      the rows with the step's own types and normal keys; UserError names step and column
    given.main(fitted)       the same rows as the step's state (`windows` or `groups`)

Columns are named for people: an aggregate that is a plain call by its own name (`orders: count(*)` -> `orders`), what
else a call needs by `<aggregate>.<part>` (`mean: avg(price)` -> `mean.sum`, `mean.count`). Calls that share state share
a column, which has the name of the plain call. What no single value can stand for is refused by name.

A given sum counts as one exact number: the exact sum of floats that was rounded before cannot be had back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from headrace.core.batch import TS
from headrace.core.errors import UserError, did_you_mean
from headrace.core.types import FLOAT_TYPES, INT_TYPES, TIMESTAMP, DataType, Decimal, Primitive, polars_type
from headrace.expr.compiled import AggregateCall, AggregateFunction, CompiledAggregate
from headrace.operators.aggregate import WINDOW_COLUMNS, AggregateConfig
from headrace.operators.running import LATEST
from headrace.operators.window.accumulator.columns import ROWS, SUM
from headrace.operators.window.accumulator.lanes import Count, Extreme, FloatSum, Lane, WholeSquares, WholeSum
from headrace.operators.window.accumulator.layout import CallState, Layout, normal_value
from headrace.operators.window.assigner import Assigner
from headrace.operators.window.saved import GROUPS, NO_WINDOW, WINDOWS, SavedStates, StepTime
from headrace.operators.window.state import PANE, SINCE
from headrace.state.snapshot import Chunk, StateSnapshot

_F = AggregateFunction
WINDOW_START, WINDOW_END = (item.name for item in WINDOW_COLUMNS)
REPLAY = "`headrace replay --savepoint` builds any state from history"
_MICROS = 1000


@dataclass(frozen=True, slots=True)
class GivenColumn:
    """A column of the rows that a user gives.

    type       the step's own type; narrower ones are widened
    meaning    what it holds, for people
    required   it cannot be left out
    nullable   it may hold NULL
    lane       id of the state columns that it becomes; None: a key or a bound
    """

    name: str
    type: DataType
    meaning: str
    required: bool = True
    nullable: bool = False
    lane: str | None = None


class GivenState:
    """State out of values, for one step. Raises UserError where a call's state cannot be given as values."""

    def __init__(self, config: AggregateConfig) -> None:
        compiled = config.compiled()
        self._config = config
        self._windowed = config.window is not None
        self._layout = Layout(compiled, config.key_fields, config.order, latest=None if self._windowed else LATEST)
        for call in self._layout.calls:
            _require_value(config.node, call.call, _owner(compiled, call.call))
        self._lanes = _lane_columns(compiled, self._layout.calls)
        self.columns = (*self._places(), *self._lanes, *self._latest())

    # ------------------------------------------------------------------ what rows must hold

    def _places(self) -> tuple[GivenColumn, ...]:
        keys = [GivenColumn(item.name, item.type, "key", nullable=item.nullable) for item in self._config.key_fields]
        bounds = [GivenColumn(item.name, item.type, item.name.replace("_", " ")) for item in WINDOW_COLUMNS]
        return (*keys, *(bounds if self._windowed else ()))

    def _latest(self) -> tuple[GivenColumn, ...]:
        if self._windowed:
            return ()
        meaning = "greatest event time of the key's rows"
        return (GivenColumn(TS, TIMESTAMP, meaning, required=False, nullable=True, lane=_latest_lane()),)

    @property
    def config(self) -> AggregateConfig:
        """The step."""
        return self._config

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns, from which the key group is computed."""
        return self._config.keys

    # ------------------------------------------------------------------ rows in

    def check(self, columns: Mapping[str, pl.DataType]) -> None:
        """Whether columns of these types can be taken. Raises UserError that names step and column."""
        known = [column.name for column in self.columns]
        for name in columns:
            if name not in known:
                hint = did_you_mean(name, tuple(known))
                raise UserError(f"step {self._config.node}: it takes no column {name!r}", remedy=hint or self._wanted())
        for column in self.columns:
            if column.name not in columns:
                if column.required:
                    missing = f"step {self._config.node}: column {column.name!r} ({column.meaning}) is missing"
                    raise UserError(missing, remedy=self._wanted())
            elif not _takes(column.type, columns[column.name]):
                raise UserError(
                    f"step {self._config.node}: column {column.name!r} ({column.meaning}) is {column.type}, "
                    f"and {columns[column.name]} was given",
                    remedy=_zoned(column.type) or f"cast it to {column.type}",
                )

    def _wanted(self) -> str:
        said = [f"{each.name} {each.type}{'' if each.required else ' (optional)'}" for each in self.columns]
        return f"it takes: {', '.join(said)}"

    def keys_of(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The key columns alone, with the step's types, in their normal form: what key groups are computed from."""
        return frame.select(
            normal_value(pl.col(item.name).cast(polars_type(item.type)), item.type).alias(item.name)
            for item in self._config.key_fields
        )

    def fitted(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows with all columns, the step's types and normal keys. Raises UserError: wrong columns, NULLs, keys or
        windows that are there twice, windows that are none, counts that cannot be."""
        self.check(frame.schema)
        made = [
            (pl.col(each.name) if each.name in frame.columns else pl.lit(None)).cast(_held(each)).alias(each.name)
            for each in self.columns
        ]
        rows = frame.select(made) if frame.columns else frame.clear()
        rows = rows.with_columns(self.keys_of(rows).get_columns()) if self.keys else rows
        for column in self.columns:
            if column.required and not column.nullable and rows.get_column(column.name).null_count():
                raise UserError(f"step {self._config.node}: column {column.name!r} ({column.meaning}) holds NULL")
        self._check_once(rows)
        self._check_windows(rows)
        return self._counted(rows)

    def _check_once(self, rows: pl.DataFrame) -> None:
        by = [*self.keys, *((WINDOW_START, WINDOW_END) if self._windowed else ())]
        if not by:
            if rows.height > 1:
                raise UserError(f"step {self._config.node}: it has no key, so one row, and {rows.height} were given")
            return
        twice = rows.filter(rows.select(pl.struct(by).is_duplicated()).to_series())
        if twice.height:
            raise UserError(
                f"step {self._config.node}: {_row_text(twice.select(by))} is there more than once",
                remedy="give one row for each key" + (" and window" if self._windowed else ""),
            )

    def _check_windows(self, rows: pl.DataFrame) -> None:
        if self._config.window is None:
            return
        assigner = self._config.window.assigner()
        bounds = rows.select(WINDOW_START, WINDOW_END).unique().sort(WINDOW_START, WINDOW_END)
        if bounds.select(pl.any_horizontal(pl.all().dt.microsecond() % _MICROS != 0).any()).item():
            raise UserError(f"step {self._config.node}: a window begins or ends between milliseconds")
        for start, end in bounds.select(pl.all().dt.epoch("ms")).rows():
            if not _is_given_window(assigner, start, end):
                shown = bounds.filter(pl.col(WINDOW_START).dt.epoch("ms") == start)
                raise UserError(
                    f"step {self._config.node}: {_row_text(shown)} is no window of {self._config.window.cut()}",
                    remedy="give the bounds that the step itself gives; of cumulate windows, those of each single step",
                )

    def _counted(self, rows: pl.DataFrame) -> pl.DataFrame:
        """With the counts that were left out; checks those that were given."""
        totals = {call.total for call in self._layout.calls}
        for column in self._lanes:
            if column.lane in totals:
                rows = self._with_count(rows, column)
        for column in self._lanes:
            if isinstance(self._layout.lane(str(column.lane)), Count) and (rows.get_column(column.name) < 0).any():
                raise UserError(f"step {self._config.node}: column {column.name!r} ({column.meaning}) is negative")
        return rows

    def _with_count(self, rows: pl.DataFrame, total: GivenColumn) -> pl.DataFrame:
        lane = next(call.rows for call in self._layout.calls if call.total == total.lane)
        count = next(each.name for each in self._lanes if each.lane == lane)
        some = pl.col(total.name).is_not_null()
        rows = rows.with_columns(pl.col(count).fill_null(some.cast(pl.Int64)))
        wrong = rows.filter(some != (pl.col(count) > 0))
        if wrong.height:
            raise UserError(
                f"step {self._config.node}: {total.name!r} is NULL where {count!r} is 0, and only there; "
                f"not so in {_row_text(wrong.select(*self.keys, total.name, count))}"
            )
        return rows

    # ------------------------------------------------------------------ state out

    def main(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Fitted rows as rows of the step's state, by key (and window)."""
        places = [*self.keys]
        if self._windowed:
            # a window's rows stand in its first pane, for that window alone (of cumulate: for it and longer ones)
            bounds = ((PANE, WINDOW_START), (SINCE, WINDOW_END))
            rows = rows.with_columns(pl.col(column).dt.epoch("ms").alias(name) for name, column in bounds)
            places = [PANE, SINCE, *places]
        columns = rows.select(places).get_columns()
        for column in self.columns:
            if column.lane is not None:
                values = rows.get_column(column.name)
                columns += _columns_of(self._layout.lane(column.lane), _working(values, column.type))
        if all(series.name in (*places, LATEST) for series in columns):
            # groups exist by their rows, whatever is asked of them
            columns.append(pl.repeat(1, rows.height, dtype=pl.Int64, eager=True).alias(f"{SUM}all_count.{ROWS}"))
        made = pl.DataFrame(columns)
        return made.sort(places) if places else made

    def snapshot(self, chunks: Sequence[Chunk], watermark: int) -> list[StateSnapshot]:
        """Chunks of `main` as the step's snapshot. watermark: windows that end by then have fired (epoch ms)."""
        config = self._config
        if config.window is None:
            saved = SavedStates(config.node, config.key_fields, self._layout, GROUPS, NO_WINDOW)
        else:
            saved = SavedStates(
                config.node, config.key_fields, self._layout, WINDOWS, config.window.cut(), (PANE, SINCE)
            )
        return saved.states([chunks], StepTime(watermark))

    def first_closed(self, rows: pl.DataFrame, watermark: int) -> str | None:
        """A window of fitted rows that can never fire again at `watermark` (its allowed lateness taken off); None."""
        if not self._windowed:
            return None
        closed = rows.filter(pl.col(WINDOW_END).dt.epoch("ms") - 1 <= watermark)
        return _row_text(closed.select(*self.keys, WINDOW_START, WINDOW_END)) if closed.height else None


def _latest_lane() -> str:
    return LATEST.partition(".")[2]


def _owner(compiled: Sequence[CompiledAggregate], call: AggregateCall) -> CompiledAggregate:
    return next(item for item in compiled for each in item.calls if each.slot == call.slot)


def _require_value(node: str, call: AggregateCall, item: CompiledAggregate) -> None:
    if call.distinct:
        reason = "the distinct values of a key are a set"
    elif call.order_sensitive:
        reason = "its state is a value and that row's place in the order of all rows"
    elif call.function in (_F.VAR, _F.VAR_POP, _F.STDDEV, _F.STDDEV_POP):
        reason = "its state is exact sums of squares, which a rounded value does not hold"
    else:
        return
    raise UserError(
        f"step {node}: the state of {item.name!r} ({item.text}) cannot be given as a value: {reason}", remedy=REPLAY
    )


def _lane_columns(compiled: Sequence[CompiledAggregate], calls: Sequence[CallState]) -> tuple[GivenColumn, ...]:
    """A column for each lane of the calls: named for the plain calls first, then for what else is needed."""
    by_slot = {state.call.slot: state for state in calls}
    found: dict[str, GivenColumn] = {}
    for item in compiled:
        if len(item.calls) == 1 and item.finish.meta.is_column():
            state = by_slot[item.calls[0].slot]
            main = state.extreme or (state.rows if state.call.function is _F.COUNT else state.total)
            if main is not None and state.call.function is not _F.AVG and main not in found:
                found[main] = _column(state, main, item.name)
    averaged = {state.rows for state in calls if state.call.function in (_F.AVG, _F.COUNT)}
    for item in compiled:
        for state in (by_slot[call.slot] for call in item.calls):
            for lane in (state.extreme, state.total, state.rows):
                if lane is not None and lane not in found:
                    name = _free(f"{item.name}.{_part(state, lane)}", {column.name for column in found.values()})
                    made = _column(state, lane, name)
                    found[lane] = replace(made, required=lane in averaged or lane != state.rows)
    return tuple(found.values())


def _part(state: CallState, lane: str) -> str:
    return str(state.call.function) if lane == state.extreme else "sum" if lane == state.total else "count"


def _free(name: str, taken: set[str]) -> str:
    number = 1
    while (tried := name if number == 1 else f"{name}{number}") in taken:
        number += 1
    return tried


def _column(state: CallState, lane: str, name: str) -> GivenColumn:
    argument = state.call.argument
    what = f"{_part(state, lane)} of {argument.text if argument else 'rows'}"
    if state.call.where is not None:
        what += f" where {state.call.where.text}"
    if lane == state.rows:
        return GivenColumn(name, Primitive.INT64, what, lane=lane)
    assert argument is not None, "only rows are counted without an argument"
    dtype = argument.type if lane == state.extreme else _sum_type(argument.type)
    return GivenColumn(name, dtype, what, nullable=True, lane=lane)


def _sum_type(dtype: DataType) -> DataType:
    if dtype in FLOAT_TYPES:
        return Primitive.FLOAT64
    return Decimal(38, dtype.scale if isinstance(dtype, Decimal) else 0)


def _held(column: GivenColumn) -> pl.DataType:
    return polars_type(column.type)


_INTS = {"Int8": 8, "Int16": 16, "Int32": 32, "Int64": 64, "UInt8": 9, "UInt16": 17, "UInt32": 33}
"""Bits that a signed number needs which holds all values."""
_MANTISSA = {Primitive.FLOAT32: 24, Primitive.FLOAT64: 53}
_DIGITS = {8: 3, 9: 3, 16: 5, 17: 5, 32: 10, 33: 10, 64: 19}


def _takes(wanted: DataType, given: pl.DataType) -> bool:
    """Whether every value of `given` is a value of `wanted`."""
    held = polars_type(wanted)
    bits = _INTS.get(str(given))
    if given in (held, pl.Null()):
        return True
    if wanted in INT_TYPES:
        return bits is not None and bits <= (32 if wanted is Primitive.INT32 else 64)
    if wanted in FLOAT_TYPES:
        return given == pl.Float32 or (bits is not None and bits <= _MANTISSA[Primitive(str(wanted))])
    if isinstance(wanted, Decimal):
        whole, scale = (_DIGITS[bits], 0) if bits is not None else _digits(given)
        return scale <= wanted.scale and whole <= wanted.precision - wanted.scale
    return wanted == TIMESTAMP and isinstance(given, pl.Datetime) and given.time_zone is not None


def _digits(given: pl.DataType) -> tuple[int, int]:
    """Digits before and after the point; too many of what is no decimal."""
    if not isinstance(given, pl.Decimal):
        return 99, 0
    return (given.precision or 38) - given.scale, given.scale


def _zoned(wanted: DataType) -> str | None:
    return "give an instant: a timestamp with a time zone" if wanted == TIMESTAMP else None


def _is_given_window(assigner: Assigner, start: int, end: int) -> bool:
    """Whether rows in the pane that begins at `start`, on time for windows that end at `end` or later, are the rows of
    that window alone, or of one single step of windows that grow."""
    import numpy as np

    if int(assigner.panes(np.array([start], dtype=np.int64))[0]) != start:
        return False
    windows = assigner.windows(start)
    alone = [span for span in windows if span[1] >= end] == [(start, end)]
    return alone or (assigner.pane_end(start) == end and windows[0][1] == end)


def _working(values: pl.Series, dtype: DataType) -> pl.Series:
    """As lanes take them: normal floats, event time in ms."""
    if values.name == TS:
        return values.dt.epoch("ms")
    return values.to_frame().select(normal_value(pl.col(values.name), dtype)).to_series()


def _columns_of(lane: Lane, values: pl.Series) -> list[pl.Series]:
    """The state columns of a lane, each row a group of its own with one value."""
    if isinstance(lane, Count):
        return [values.fill_null(0).alias(f"{SUM}{lane.id}.{ROWS}")]
    frame = values.alias("__value").to_frame()
    match lane:
        case FloatSum():
            return [made.cast(pl.Int64) for made in replace(lane, column="__value").prepare(frame)]
        case WholeSum() | Extreme():
            single = frame.with_row_index("__row")
            made = single.group_by("__row").agg(replace(lane, column="__value").partial()).sort("__row")
            return made.drop("__row").get_columns()
        case WholeSquares() | _:
            raise AssertionError("sums of squares are refused")


def _row_text(rows: pl.DataFrame) -> str:
    first = rows.row(0, named=True)
    return ", ".join(f"{name} {value!s}" for name, value in first.items())
