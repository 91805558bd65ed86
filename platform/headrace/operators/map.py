"""Map: a vectorised Python function, named by import path, over the visible columns of a batch.

Owns the check of the function's result: it must have the same number of rows and exactly the declared columns. The
function must also keep the order of the rows; that cannot be checked. `user_function` imports it.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import NoReturn

import polars as pl
from polars.datatypes import DataTypeClass

from headrace.core.batch import hidden_columns, visible_columns
from headrace.core.errors import DataError, UserError
from headrace.core.time_range import OUTSIDE, outside_years
from headrace.core.types import Schema
from headrace.operators.operator import Collector, InputNeeds, OnError, Operator, OperatorConfig, Stateless
from headrace.operators.row_errors import RowErrors
from headrace.operators.user_function import MapFunction, call, exception_text, import_function


@dataclass(frozen=True, slots=True)
class MapConfig(OperatorConfig):
    """`map: {function: pkg.mod:fn, schema: {..}}`. The function is imported when the step opens.

    With `on_error` other than `fail`, a batch for which the function raises is bisected down to single rows. Rows for
    which the function raises in a batch of their own are the bad rows.
    """

    node: str
    function: str
    schema: Schema
    input: Schema
    on_error: OnError = OnError.FAIL

    def output(self) -> Schema:
        """The declared columns."""
        return self.schema

    def needs(self) -> InputNeeds:
        """Any row can fail in the function."""
        return InputNeeds(fails=True)

    def describe(self) -> str:
        """The function's import path."""
        return self.function

    def open(self) -> Operator:
        """A new operator of this step. Raises UserError if the function cannot be imported."""
        return _Map(self, import_function(self.node, self.function))


class _RaisedError(Exception):
    """The user's function raised `cause`."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


class _Map(Stateless):
    def __init__(self, config: MapConfig, function: MapFunction) -> None:
        self._config = config
        self._function = function
        self._types = config.schema.polars()
        self._required = [field.name for field in config.schema if not field.nullable]
        self._errors = RowErrors(config.node, config.on_error)

    def on_batch(self, batch: pl.DataFrame, out: Collector) -> None:
        visible = batch[visible_columns(batch)]
        bad: dict[int, str] = {}
        try:
            returned = self._call(visible)
        except _RaisedError as raised:
            returned = self._piecewise(visible, bad)
            if self._config.on_error is OnError.FAIL:
                self._fail(batch, bad, raised.cause, out)
        self._find_missing(returned, bad)
        self._find_impossible(returned, bad)
        result = returned.hstack(batch[hidden_columns(batch)].get_columns())
        if bad:
            result = result.filter(self._errors.reject(batch, bad, out))
        if result.height:
            out.emit(result)

    def _call(self, rows: pl.DataFrame) -> pl.DataFrame:
        try:
            returned = call(self._function, rows, f"{self._config.function} of step {self._config.node!r}")
        # a panic of polars is a BaseException; so is `sys.exit`, which would end a thread, or a command, without a word
        except (Exception, pl.exceptions.PanicException, SystemExit) as cause:
            raise _RaisedError(cause) from cause
        return self._checked(returned, rows.height)

    def _checked(self, made: object, height: int) -> pl.DataFrame:
        """The function's result with exactly the declared columns and types. Raises UserError if it is no such
        frame."""
        if not isinstance(made, pl.DataFrame):
            raise self._contract_error(f"gave {type(made).__name__}, not a polars DataFrame")
        if made.height != height:
            raise self._contract_error(f"made {made.height} rows of {height}; it must keep every row in its place")
        if made.schema == self._types and made.columns == list(self._types):
            return made
        wrong = [
            *(f"column {name!r} is missing" for name in self._types if name not in made.columns),
            *(f"column {name!r} is not in the schema" for name in made.columns if name not in self._types),
            *(
                f"column {name!r} is {dtype}, but the schema says {self._config.schema.field(name).type} ({wanted})"
                for name, wanted in self._types.items()
                if (dtype := made.schema.get(name)) is not None and not castable(dtype, wanted)
            ),
        ]
        if wrong:
            raise self._contract_error("; ".join(wrong))
        for name, dtype in self._types.items():
            # polars panics where such a time in milliseconds becomes one in microseconds
            if made.schema[name] != dtype and outside_years(made.get_column(name)) is not None:
                raise _RaisedError(ValueError(f"column {name!r} {OUTSIDE}"))
        return made.select(pl.col(name).cast(dtype) for name, dtype in self._types.items())

    def _contract_error(self, problem: str) -> UserError:
        return UserError(
            f"map step {self._config.node!r}: {self._config.function} {problem}",
            remedy=f"declared: {self._config.schema}",
        )

    def _piecewise(self, rows: pl.DataFrame, bad: dict[int, str]) -> pl.DataFrame:
        """Calls the function on parts of a batch for which it raised; adds the rows that fail alone to `bad`.

        Bad rows become NULLs, so that the result keeps its height. With `on_error: fail` it stops at the first bad row.
        """
        pieces: list[pl.DataFrame] = []
        nulls = pl.DataFrame({name: [None] for name in self._types}, schema=self._types)
        waiting = [(0, rows.height)]  # a stack of ranges, the leftmost on top
        while waiting and not (bad and self._config.on_error is OnError.FAIL):
            begin, end = waiting.pop()
            try:
                pieces.append(self._call(rows.slice(begin, end - begin)))
            except _RaisedError as raised:
                if end - begin > 1:
                    middle = (begin + end) // 2
                    waiting += [(middle, end), (begin, middle)]
                else:
                    bad[begin] = self._reason(raised.cause)
                    pieces.append(nulls)
        return pl.concat(pieces)

    def _find_missing(self, made: pl.DataFrame, bad: dict[int, str]) -> None:
        """Adds the rows with a NULL in a column that is declared not null to `bad`."""
        for name in self._required:
            column = made.get_column(name)
            if column.null_count():
                for number in column.is_null().arg_true():
                    bad.setdefault(number, f"{self._config.function} gave NULL in {name!r}, which is not null")

    def _find_impossible(self, made: pl.DataFrame, bad: dict[int, str]) -> None:
        """Adds the rows with a time that no row may have."""
        for column in made:
            mask = outside_years(column)
            for number in () if mask is None else mask.nonzero()[0].tolist():
                bad.setdefault(number, f"{self._config.function} gave {column.name!r}, which {OUTSIDE}")

    def _reason(self, cause: BaseException) -> str:
        return f"{self._config.function} raised {exception_text(cause)} ({self._place(cause)})"

    def _place(self, cause: BaseException) -> str:
        """file:line of the innermost frame in the function's own file."""
        frames = traceback.extract_tb(cause.__traceback__)
        code = getattr(self._function, "__code__", None)
        own = [frame for frame in frames if code is not None and frame.filename == code.co_filename]
        if not frames:  # its result was refused
            return "its result"
        where = (own or list(frames))[-1]
        return f"{where.filename}:{where.lineno}"

    def _fail(self, batch: pl.DataFrame, bad: dict[int, str], cause: BaseException, out: Collector) -> NoReturn:
        """Raises DataError for a function that raised. The error names the first bad row, or the whole batch if no row
        fails alone."""
        if bad:
            self._errors.reject(batch, bad, out, cause=cause)
        raise DataError(
            f"step {self._config.node!r} failed: {self._reason(cause)}",
            remedy=f"it raised for {batch.height} rows together, for none of them alone: it depends on the batch",
        ) from cause


# ---- lossless conversions --------------------------------------------------------------------------------------------

_INT_BITS: dict[type[pl.DataType], int] = {
    pl.Int8: 8,
    pl.Int16: 16,
    pl.Int32: 32,
    pl.Int64: 64,
    pl.UInt8: 9,
    pl.UInt16: 17,
    pl.UInt32: 33,
}
"""Bits of the signed integer that holds every value."""
_EXACT_INT_BITS: dict[type[pl.DataType], int] = {pl.Float32: 25, pl.Float64: 54}
"""Bits of the signed integers that a float holds exactly."""


def castable(found: pl.DataType, wanted: pl.DataType) -> bool:
    """Whether every value of the type `found` is a value of the type `wanted`, so that a cast changes no value.

    A datetime without a zone counts as UTC; a column of NULLs fits any type.
    """
    match wanted:
        case _ if found in (wanted, pl.Null):
            return True
        case pl.Int32() | pl.Int64():
            return _int_bits(found) <= _INT_BITS[type(wanted)]
        case pl.Float32() | pl.Float64():
            exact = _EXACT_INT_BITS[type(wanted)]
            return _int_bits(found) <= exact or (found == pl.Float32 and wanted == pl.Float64)
        case pl.String():
            return isinstance(found, pl.Categorical | pl.Enum)
        case pl.Datetime():
            return isinstance(found, pl.Datetime) and found.time_unit in ("ms", "us")
        case pl.Decimal():
            return isinstance(found, pl.Decimal) and _decimal_fits(found, wanted)
        case pl.List():
            return isinstance(found, pl.List) and castable(_plain(found.inner), _plain(wanted.inner))
        case pl.Struct():
            return isinstance(found, pl.Struct) and _struct_fits(found, wanted)
        case _:
            return False


def _int_bits(dtype: pl.DataType) -> int:
    return _INT_BITS.get(type(dtype), 1_000)


def _decimal_fits(found: pl.Decimal, wanted: pl.Decimal) -> bool:
    whole = (wanted.precision or 38) - wanted.scale
    return found.scale <= wanted.scale and (found.precision or 38) - found.scale <= whole


def _struct_fits(found: pl.Struct, wanted: pl.Struct) -> bool:
    pairs = zip(found.fields, wanted.fields, strict=False)
    return len(found.fields) == len(wanted.fields) and all(
        mine.name == theirs.name and castable(_plain(mine.dtype), _plain(theirs.dtype)) for mine, theirs in pairs
    )


def _plain(dtype: pl.DataType | DataTypeClass) -> pl.DataType:
    return dtype if isinstance(dtype, pl.DataType) else dtype()
