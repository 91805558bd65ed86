"""The state of an aggregating step from values that a user supplies: one row per key, or per key and window. Pure.

    given = GivenState(config)
    given.columns            the columns that rows must or may have (`bootstrap.columns`)
    given.fitted(frame)      the rows with the step's own types and normal keys; UserError names step and column
    given.parts(fitted)      the same rows as the step's states: `windows` or `groups`, then the distinct values

A supplied sum counts as exact: rounding that happened before cannot be undone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from headrace.core.batch import TS
from headrace.core.errors import UserError, did_you_mean
from headrace.core.time_range import OUTSIDE, outside_years
from headrace.core.types import (
    FLOAT_TYPES,
    INT_TYPES,
    TIMESTAMP,
    DataType,
    Decimal,
    ListOf,
    Primitive,
    Struct,
    polars_type,
)
from headrace.operators.aggregates.columns import ROWS, SUM
from headrace.operators.aggregates.count import Count
from headrace.operators.aggregates.given import GivenColumn, LaneOf, PositionOf, SquaresOf
from headrace.operators.aggregates.layout import Layout
from headrace.operators.aggregates.needs import normal_value
from headrace.operators.aggregates.state import lane_of
from headrace.operators.aggregation.running import LATEST
from headrace.operators.aggregation.snapshots import GROUPS, NO_WINDOW, WINDOWS, SavedStates, StepTime
from headrace.operators.bootstrap.columns import GivenPartials, aggregate_columns
from headrace.operators.bootstrap.spread import ImpossibleSpreadError
from headrace.operators.window.assigner import Assigner
from headrace.operators.window.definitions import WINDOW_COLUMNS
from headrace.operators.window.placed_rows import PANE, SINCE
from headrace.state.snapshot import Chunk, StateSnapshot

if TYPE_CHECKING:
    from headrace.operators.aggregate import AggregateConfig

WINDOW_START, WINDOW_END = (item.name for item in WINDOW_COLUMNS)
_MICROS = 1000


class GivenState:
    """Converts supplied rows to the state of one step."""

    def __init__(self, config: AggregateConfig) -> None:
        compiled = config.compiled()
        self._config = config
        self._windowed = config.window is not None
        self._layout = Layout(compiled, config.key_fields, config.order, latest=None if self._windowed else LATEST)
        self._ordered = config.order == "event"
        self._aggregates = aggregate_columns(compiled, self._layout, placed=self._ordered)
        self.columns = (*self._bounds(), *self._aggregates, *self._latest())
        came = pl.col(WINDOW_START).dt.epoch("ms") if self._windowed else pl.lit(0)
        self._partials = GivenPartials(self._layout, self.columns, None if self._ordered else came)

    # ------------------------------------------------------------------ what rows must hold

    def _bounds(self) -> tuple[GivenColumn, ...]:
        keys = [GivenColumn(item.name, item.type, "key", nullable=item.nullable) for item in self._config.key_fields]
        bounds = [GivenColumn(item.name, item.type, item.name.replace("_", " ")) for item in WINDOW_COLUMNS]
        return (*keys, *(bounds if self._windowed else ()))

    def _latest(self) -> tuple[GivenColumn, ...]:
        if self._windowed:
            return ()
        meaning = "greatest event time of the key's rows"
        return (GivenColumn(TS, TIMESTAMP, meaning, required=False, nullable=True, becomes=LaneOf(lane_of(LATEST))),)

    @property
    def config(self) -> AggregateConfig:
        """The step."""
        return self._config

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns, which determine the key group."""
        return self._config.keys

    # ------------------------------------------------------------------ rows in

    def check(self, columns: Mapping[str, pl.DataType]) -> None:
        """Checks the names and types of the columns. Raises UserError that names step and column."""
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
            elif not takes(column.type, columns[column.name]):
                raise UserError(
                    f"step {self._config.node}: column {column.name!r} ({column.meaning}) is {column.type}, "
                    f"and {columns[column.name]} was given",
                    remedy=_zoned(column.type) or f"cast it to {column.type}",
                )
        self._check_squares(columns)

    def _check_squares(self, columns: Mapping[str, pl.DataType]) -> None:
        """Requires, for each spread, either the squares or the deviations."""
        ways: dict[str, list[str]] = {}
        for column in self._aggregates:
            if isinstance(column.becomes, SquaresOf):
                ways.setdefault(column.becomes.lane, []).append(column.name)
        for names in ways.values():
            if sum(name in columns for name in names) != 1:
                said = f"either {' or '.join(map(repr, names))} has to be there, not both"
                raise UserError(f"step {self._config.node}: {said}", remedy=self._wanted())

    def _wanted(self) -> str:
        said = [f"{each.name} {each.type}{'' if each.required else ' (optional)'}" for each in self.columns]
        return f"it takes: {', '.join(said)}"

    def keys_of(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The key columns alone, with the step's types, in the normal form that key groups are computed from."""
        return frame.select(
            normal_value(pl.col(item.name).cast(polars_type(item.type)), item.type).alias(item.name)
            for item in self._config.key_fields
        )

    def fitted(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows with all columns, the step's types and normal keys. Raises UserError for wrong columns, NULLs,
        duplicate keys or windows, invalid windows, times outside of the years 1 to 9999, and impossible positions and
        counts.

        Of the sums of squares and of deviations, only the supplied ones are present.
        """
        self.check(frame.schema)
        self._check_times(frame)
        made = [
            (pl.col(each.name) if each.name in frame.columns else pl.lit(None))
            .cast(polars_type(each.type))
            .alias(each.name)
            for each in self.columns
            if each.name in frame.columns or not isinstance(each.becomes, SquaresOf)
        ]
        rows = frame.select(made) if frame.columns else frame.clear()
        rows = rows.with_columns(self.keys_of(rows).get_columns()) if self.keys else rows
        for column in self.columns:
            if column.required and not column.nullable and rows.get_column(column.name).null_count():
                raise UserError(f"step {self._config.node}: column {column.name!r} ({column.meaning}) holds NULL")
        self._check_once(rows)
        self._check_windows(rows)
        for column in self._aggregates:
            if isinstance(column.becomes, PositionOf) and column.becomes.index is None:
                self._check_leading(rows, column.becomes)
                if self._ordered:
                    self._check_places(rows, column.becomes)
        return self._counted(rows)

    def _check_times(self, frame: pl.DataFrame) -> None:
        """Requires times in the years 1 to 9999, beyond which polars fails or overflows."""
        for column in self.columns:
            if column.name not in frame.columns:
                continue
            outside = outside_years(frame.get_column(column.name))
            if outside is not None:
                row = frame.filter(pl.Series(outside)).head(1)
                raise UserError(
                    f"step {self._config.node}: column {column.name!r} ({column.meaning}) {OUTSIDE}{self._place(row)}",
                    remedy="correct the time, or leave the row out",
                )

    def _place(self, row: pl.DataFrame) -> str:
        """The key and window of a row, without times that no text can show."""
        names = [item.name for item in self._bounds() if item.name in row.columns]
        shown = row.select(name for name in names if outside_years(row.get_column(name)) is None)
        return f", in the row with {_row_text(shown)}" if shown.width else ""

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
                    f"step {self._config.node}: {_row_text(shown)} is no window of {self._config.window.definition()}",
                    remedy="give the bounds that the step itself gives; of cumulate windows, those of each single step",
                )

    def _check_leading(self, rows: pl.DataFrame, of: PositionOf) -> None:
        """Requires the values that order the rows before their total order, wherever there is a value."""
        value = self._partials.name_of(of)
        for by in (self._partials.name_of(replace(of, index=index)) for index in range(of.leading)):
            wrong = rows.filter(pl.col(value).is_not_null() != pl.col(by).is_not_null())
            self._refuse(wrong, (value, by), "one is NULL and the other is not")

    def _check_places(self, rows: pl.DataFrame, of: PositionOf) -> None:
        """Requires the event time of a value, and either its whole position or none of it."""
        indexes = range(of.leading, of.leading + 6)
        value, ts, *place, number = (self._partials.name_of(replace(of, index=index)) for index in (None, *indexes))
        there, given = pl.col(value).is_not_null(), [pl.col(name).is_not_null() for name in place]
        self._refuse(rows.filter(there != pl.col(ts).is_not_null()), (value, ts), "one is NULL and the other is not")
        said = "a row's place is given whole, or not at all"
        self._refuse(rows.filter(pl.any_horizontal(given) & ~pl.all_horizontal(given)), place, said)
        self._refuse(rows.filter(pl.col(number).is_not_null() & ~pl.all_horizontal(given)), (number, *place), said)
        if self._windowed:
            outside = (pl.col(ts) < pl.col(WINDOW_START)) | (pl.col(ts) >= pl.col(WINDOW_END))
            self._refuse(rows.filter(outside), (WINDOW_START, WINDOW_END, ts), "the time is not in the window")

    def _refuse(self, wrong: pl.DataFrame, columns: Sequence[str], why: str) -> None:
        if wrong.height:
            raise UserError(f"step {self._config.node}: {_row_text(wrong.select(*self.keys, *columns))}: {why}")

    def _counted(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with omitted counts filled in; checks the supplied ones."""
        for column in self._aggregates:
            if column.counted_by is not None:
                rows = self._with_count(rows, column.name, self._partials.name_of(LaneOf(column.counted_by)))
        for column in self._aggregates:
            is_count = isinstance(column.becomes, LaneOf) and isinstance(self._layout.lane(column.becomes.lane), Count)
            if is_count and (rows.get_column(column.name) < 0).any():
                raise UserError(f"step {self._config.node}: column {column.name!r} ({column.meaning}) is negative")
        return rows

    def _with_count(self, rows: pl.DataFrame, total: str, count: str) -> pl.DataFrame:
        some = pl.col(total).is_not_null()
        rows = rows.with_columns(pl.col(count).fill_null(some.cast(pl.Int64)))
        wrong = rows.filter(some != (pl.col(count) > 0))
        if wrong.height:
            raise UserError(
                f"step {self._config.node}: {total!r} is NULL where {count!r} is 0, and only there; "
                f"not so in {_row_text(wrong.select(*self.keys, total, count))}"
            )
        return rows

    # ------------------------------------------------------------------ state out

    def parts(self, rows: pl.DataFrame) -> list[pl.DataFrame]:
        """Converts validated rows to the parts of the step's state, by key (and window): the aggregates, then the
        distinct values of each argument that is counted distinct. Raises UserError for impossible spreads."""
        by = [*self.keys]
        if self._windowed:
            # A window's rows are stored in its first pane, on time only for windows that end at its end or later: that
            # is this window alone (of cumulate windows: this one and the longer ones).
            bounds = ((PANE, WINDOW_START), (SINCE, WINDOW_END))
            rows = rows.with_columns(pl.col(column).dt.epoch("ms").alias(name) for name, column in bounds)
            by = [PANE, SINCE, *by]
        columns = [*rows.select(by).get_columns(), *self._partial(rows)]
        if all(series.name in (*by, LATEST) for series in columns):
            # no aggregate has a state column here: the group exists through its count of rows
            columns.append(pl.repeat(1, rows.height, dtype=pl.Int64, eager=True).alias(f"{SUM}all_count.{ROWS}"))
        made = pl.DataFrame(columns)
        values = [self._partials.values(rows, by, each) for each in self._layout.values]
        return [made.sort(by) if by else made, *values]

    def _partial(self, rows: pl.DataFrame) -> list[pl.Series]:
        try:
            return self._partials.aggregates(rows)
        except ImpossibleSpreadError as error:
            count, total = self._partials.spread_of(error.of)
            wrong = rows[error.row].select(*self.keys, count, total, self._partials.name_of(error.of))
            raise UserError(
                f"step {self._config.node}: no values have {_row_text(wrong)}",
                remedy="a sum of squares is not less than the square of the sum over the count; deviations not below 0",
            ) from error

    def snapshot(self, chunks: Sequence[Sequence[Chunk]], watermark: int) -> list[StateSnapshot]:
        """The step's snapshot. chunks: those of each of `parts`; empty: the snapshot has no rows, only the time.

        watermark   windows that end by then have fired (epoch ms)
        """
        config = self._config
        main, window, placed = GROUPS, NO_WINDOW, tuple[str, ...]()
        if config.window is not None:
            main, window, placed = WINDOWS, config.window.definition(), (PANE, SINCE)
        saved = SavedStates(config.node, config.key_fields, self._layout, main, window, placed)
        return saved.states(chunks or [[] for _ in self._layout.parts], StepTime(watermark))

    def first_closed(self, rows: pl.DataFrame, watermark: int) -> str | None:
        """The first row, as text, whose window can never fire again; None if there is none.

        watermark   the operator's, less the allowed lateness (epoch ms)
        """
        if not self._windowed:
            return None
        closed = rows.filter(pl.col(WINDOW_END).dt.epoch("ms") - 1 <= watermark)
        return _row_text(closed.select(*self.keys, WINDOW_START, WINDOW_END)) if closed.height else None


def _zoned(wanted: DataType) -> str | None:
    return "give an instant: a timestamp with a time zone" if wanted == TIMESTAMP else None


def _is_given_window(assigner: Assigner, start: int, end: int) -> bool:
    """Whether [start, end) is a window whose rows can be stored in its first pane: then rows in the pane that begins at
    `start`, on time for windows that end at `end` or later, are exactly the rows of that window, or of one step of
    cumulate windows."""
    import numpy as np

    if int(assigner.panes(np.array([start], dtype=np.int64))[0]) != start:
        return False
    alone = assigner.last(start) == (start, end)
    return alone or (assigner.pane_end(start) == end and assigner.first(start)[1] == end)


def _row_text(rows: pl.DataFrame) -> str:
    first = rows.row(0, named=True)
    return ", ".join(f"{name} {value!s}" for name, value in first.items())


# ---- types -----------------------------------------------------------------------------------------------------------

_INTS = {"Int8": 8, "Int16": 16, "Int32": 32, "Int64": 64, "UInt8": 9, "UInt16": 17, "UInt32": 33}
"""Bits of the signed integer that holds every value."""
_MANTISSA = {Primitive.FLOAT32: 24, Primitive.FLOAT64: 53}
_DIGITS = {8: 3, 9: 3, 16: 5, 17: 5, 32: 10, 33: 10, 64: 19}


def takes(wanted: DataType, given: pl.DataType) -> bool:
    """Whether every value of the type `given` is a value of the type `wanted`."""
    if given in (polars_type(wanted), pl.Null()):
        return True
    match wanted:
        case ListOf(inner):
            return isinstance(given, pl.List) and takes(inner, _instance(given.inner))
        case Struct(fields):
            if not isinstance(given, pl.Struct) or [item.name for item in given.fields] != [
                each.name for each in fields
            ]:
                return False
            pairs = zip(fields, given.fields, strict=True)
            return all(takes(ours.type, _instance(theirs.dtype)) for ours, theirs in pairs)
        case _:
            return _takes_number(wanted, given) or _takes_instant(wanted, given)


def _takes_number(wanted: DataType, given: pl.DataType) -> bool:
    bits = _INTS.get(str(given))
    if wanted in INT_TYPES:
        return bits is not None and bits <= (32 if wanted is Primitive.INT32 else 64)
    if wanted in FLOAT_TYPES:
        return given == pl.Float32 or (bits is not None and bits <= _MANTISSA[Primitive(str(wanted))])
    if isinstance(wanted, Decimal):
        whole, scale = (_DIGITS[bits], 0) if bits is not None else _digits(given)
        return scale <= wanted.scale and whole <= wanted.precision - wanted.scale
    return False


def _takes_instant(wanted: DataType, given: pl.DataType) -> bool:
    return wanted == TIMESTAMP and isinstance(given, pl.Datetime) and given.time_zone is not None


def _digits(given: pl.DataType) -> tuple[int, int]:
    """Digits before and after the point; too many for a type that is not a decimal."""
    if not isinstance(given, pl.Decimal):
        return 99, 0
    return (given.precision or 38) - given.scale, given.scale


def _instance(dtype: object) -> pl.DataType:
    """polars accepts classes as inner types, and returns the class or instance that it was passed; this returns an
    instance for both."""
    if isinstance(dtype, type):
        dtype = dtype()
    assert isinstance(dtype, pl.DataType), "types are classes or instances"
    return dtype
