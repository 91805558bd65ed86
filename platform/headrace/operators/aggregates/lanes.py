"""Lanes: the state columns of one kind of aggregate over one argument column, and their computation from a batch.

A lane reads an argument column of the working rows (NULL: the row does not count), and computes state columns with
names as specified by `columns`. `prepare` computes columns that polars expressions cannot compute (limbs); `partial`
returns the expressions per group. `aggregate` is both of them as one aggregate of the group-by kernel, if it has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import polars as pl

from headrace.kernels.arrow_columns import Form, value_form
from headrace.kernels.group.group_by import Action, Aggregate
from headrace.operators.aggregates.columns import MAX, MIN, NANMAX, ROWS, SUM
from headrace.operators.aggregates.exact import limbs

_HALF = 1 << 63
_HALF_BITS = 63


class Lane(Protocol):
    """One aggregate's state over one argument."""

    @property
    def id(self) -> str:
        """Part of the names of its state columns."""
        ...

    def prepare(self, rows: pl.DataFrame) -> list[pl.Series]:
        """State columns with one value per row, to be summed per group; for computations beyond polars expressions."""
        ...

    def partial(self) -> list[pl.Expr]:
        """Expressions that compute state columns for a group of rows."""
        ...

    @property
    def column(self) -> str | None:
        """The argument column; None: rows are counted."""
        ...

    def aggregate(self, dtype: pl.DataType) -> Aggregate | None:
        """The same state columns as an aggregate of the kernel; None if the kernel lacks it. dtype: of the argument."""
        ...


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


@dataclass(frozen=True, slots=True)
class WholeSum:
    """Sum of whole numbers (ints, or the scaled integers of decimals), exact in 128 bits for any number of rows.

    `wide` numbers may have more than 96 bits each, so they are summed in two columns.
    """

    id: str
    column: str
    wide: bool

    def prepare(self, rows: pl.DataFrame) -> list[pl.Series]:
        """Nothing."""
        return []

    def partial(self) -> list[pl.Expr]:
        """One column of units, or two."""
        number = pl.col(self.column).to_physical().cast(pl.Int128)
        return _lanes(number, self.id, 0) if self.wide else [number.sum().alias(f"{SUM}{self.id}.e0")]

    def aggregate(self, dtype: pl.DataType) -> Aggregate | None:
        """The sum, if it has one column."""
        form = value_form(dtype)
        if self.wide or form not in (Form.INT32, Form.INT64, Form.INT128):
            return None
        action = Action.SUM_WIDE if form is Form.INT64 else Action.SUM
        return Aggregate(action, f"{SUM}{self.id}.e0", self.column, dtype)


def _lanes(number: pl.Expr, lane: str, exponent: int) -> list[pl.Expr]:
    high, low = number // _HALF, number % _HALF
    return [
        low.sum().alias(f"{SUM}{lane}.e{exponent}"),
        high.sum().alias(f"{SUM}{lane}.e{exponent + _HALF_BITS}"),
    ]


@dataclass(frozen=True, slots=True)
class WholeSquares:
    """Sum of the squares of whole numbers of at most `bits` bits, exact."""

    id: str
    column: str
    bits: int

    def prepare(self, rows: pl.DataFrame) -> list[pl.Series]:
        """Nothing."""
        return []

    def partial(self) -> list[pl.Expr]:
        """Columns by size: a square of up to 64 bits has headroom in 128, one of 128 bits needs two columns, others
        three."""
        number = pl.col(self.column).to_physical().cast(pl.Int128)
        if self.bits <= 32:
            return [(number * number).sum().alias(f"{SUM}{self.id}.e0")]
        if self.bits <= 64:
            return _lanes(number * number, self.id, 0)
        high, low = number // _HALF, number % _HALF
        # each product has up to 127 bits, so it is summed in two columns (`a`, `b`, `c` distinguish their names)
        return [
            *_lanes(low * low, f"{self.id}.a", 0),
            # the middle term of the square counts twice: one more bit of exponent
            *_lanes(high * low, f"{self.id}.b", _HALF_BITS + 1),
            *_lanes(high * high, f"{self.id}.c", 2 * _HALF_BITS),
        ]

    def aggregate(self, dtype: pl.DataType) -> Aggregate | None:
        """None: the kernel has no squares of whole numbers."""
        return None


@dataclass(frozen=True, slots=True)
class FloatSum:
    """Sum of float64 values, or of their squares, as limbs (`limbs`); infinities and NaN are counted separately."""

    id: str
    column: str
    squares: bool

    def prepare(self, rows: pl.DataFrame) -> list[pl.Series]:
        """One column per limb that the rows need."""
        values = rows.get_column(self.column).cast(pl.Float64).fill_null(0.0).to_numpy()
        made = []
        finite = np.isfinite(values)
        if not finite.all():
            made = [
                pl.Series(f"{SUM}{self.id}.{name}", test(values)).cast(pl.Int64) for name, test in _UNCOUNTABLE.items()
            ]
            values = np.where(finite, values, 0.0)
        cut = limbs.split_squares(values) if self.squares else limbs.split(values)
        return [
            *made,
            *(pl.Series(f"{SUM}{self.id}.e{limb * limbs.LIMB_BITS}", whole) for limb, whole in cut.items()),
        ]

    def partial(self) -> list[pl.Expr]:
        """Nothing: the prepared columns are summed."""
        return []

    def aggregate(self, dtype: pl.DataType) -> Aggregate | None:
        """The limbs. Other limbs than those of `prepare` may occur; their total is the same."""
        if value_form(dtype) not in (Form.FLOAT32, Form.FLOAT64):
            return None
        return Aggregate(Action.SQUARES if self.squares else Action.LIMBS, f"{SUM}{self.id}", self.column, dtype)


_UNCOUNTABLE: dict[str, Callable[[limbs.Floats], np.ndarray[tuple[int], np.dtype[np.bool]]]] = {
    "nan": np.isnan,
    "pinf": np.isposinf,
    "ninf": np.isneginf,
}


@dataclass(frozen=True, slots=True)
class Extreme:
    """The least or greatest value; for floats, NaN is the greatest."""

    id: str
    column: str
    greatest: bool
    floating: bool

    def prepare(self, rows: pl.DataFrame) -> list[pl.Series]:
        """Nothing."""
        return []

    def partial(self) -> list[pl.Expr]:
        """polars' `min` ignores NaN unless all values are NaN; `nan_max` returns NaN if any value is."""
        column = pl.col(self.column)
        if not self.greatest:
            return [column.min().alias(f"{MIN}{self.id}")]
        if self.floating:
            return [column.nan_max().alias(f"{NANMAX}{self.id}")]
        return [column.max().alias(f"{MAX}{self.id}")]

    def aggregate(self, dtype: pl.DataType) -> Aggregate | None:
        """The value, for numbers and times. The kernel normalizes zeros and NaN itself."""
        if value_form(dtype) is Form.ANY:
            return None
        prefix = MIN if not self.greatest else NANMAX if self.floating else MAX
        return Aggregate(Action.MAX if self.greatest else Action.MIN, f"{prefix}{self.id}", self.column, dtype)
