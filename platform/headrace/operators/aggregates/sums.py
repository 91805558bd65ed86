"""sum and avg: exact sums of numbers, and their quotients by the count."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from headrace.core.types import FLOAT_TYPES, DataType, Decimal, Primitive, polars_type
from headrace.expr.compiled import AggregateCall
from headrace.kernels.arrow_columns import Form as ColumnForm
from headrace.kernels.arrow_columns import value_form
from headrace.kernels.group.group_by import Action, Aggregate
from headrace.operators.aggregates.columns import SUM
from headrace.operators.aggregates.count import count_lane, given_count
from headrace.operators.aggregates.exact import limbs
from headrace.operators.aggregates.exact.rational import scaled_quotient
from headrace.operators.aggregates.exact.totals import fast_quotients, scale_of, specials, totals, with_specials
from headrace.operators.aggregates.given import GivenColumn, LaneOf, given_values, meaning
from headrace.operators.aggregates.needs import Form, StateNeeds, Values
from headrace.operators.aggregates.state import Finished, Lane, by_row, column_of, counts_of

DIGITS_MAX = 38
_HALF = 1 << 63
HALF_BITS = 63
_DECIMAL = decimal.Context(prec=80)


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
        return halves(number, self.id, 0) if self.wide else [number.sum().alias(f"{SUM}{self.id}.e0")]

    def aggregate(self, dtype: pl.DataType) -> Aggregate | None:
        """The sum, if it has one column."""
        form = value_form(dtype)
        if self.wide or form not in (ColumnForm.INT32, ColumnForm.INT64, ColumnForm.INT128):
            return None
        action = Action.SUM_WIDE if form is ColumnForm.INT64 else Action.SUM
        return Aggregate(action, f"{SUM}{self.id}.e0", self.column, dtype)

    def supplied(self, values: pl.Series) -> list[pl.Series]:
        """The sum."""
        return by_row(self, values)


def halves(number: pl.Expr, lane: str, exponent: int) -> list[pl.Expr]:
    """The sum of numbers of up to 127 bits in two columns."""
    high, low = number // _HALF, number % _HALF
    return [
        low.sum().alias(f"{SUM}{lane}.e{exponent}"),
        high.sum().alias(f"{SUM}{lane}.e{exponent + HALF_BITS}"),
    ]


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
        if value_form(dtype) not in (ColumnForm.FLOAT32, ColumnForm.FLOAT64):
            return None
        return Aggregate(Action.SQUARES if self.squares else Action.LIMBS, f"{SUM}{self.id}", self.column, dtype)

    def supplied(self, values: pl.Series) -> list[pl.Series]:
        """The limbs of a sum. Sums of squares are supplied in other ways (`operators.bootstrap.spread`)."""
        assert not self.squares, "squares are no values of their own"
        return [made.cast(pl.Int64) for made in self.prepare(values.alias(self.column).to_frame())]


_UNCOUNTABLE: dict[str, Callable[[limbs.Floats], np.ndarray[tuple[int], np.dtype[np.bool]]]] = {
    "nan": np.isnan,
    "pinf": np.isposinf,
    "ninf": np.isneginf,
}


@dataclass(frozen=True, slots=True)
class SumState:
    """The state of a call. rows, total: the lanes of count and sum; values: the distinct values that they read."""

    call: AggregateCall
    rows: str
    total: str
    values: Values | None

    @property
    def is_one_value(self) -> bool:
        """A sum is, an average is sum and count."""
        return self.values is None and self.call.function.name == "sum"

    def given(self) -> Sequence[GivenColumn]:
        """Sum and count. The count of a sum only says whether there are values, as a sum that is NULL does."""
        if self.values is not None:
            return [given_values(self.call, self.values.state, is_counted=False)]
        required = self.call.function.name != "sum"
        return [given_sum(self.call, self.rows, self.total), given_count(self.call, self.rows, required=required)]

    def finish(self, merged: pl.DataFrame) -> Finished:
        """The sum or the average; NULL of no values."""
        if self.call.function.name == "avg" or self.call.type in FLOAT_TYPES:
            return self._quotients(merged, divide=self.call.function.name == "avg")
        if isinstance(self.call.type, Decimal):
            return self._decimal_sums(merged, self.call.type)
        counts = counts_of(merged, self.rows)
        total = column_of(merged, f"{SUM}{self.total}.e0", pl.Int128())
        value = total.cast(polars_type(self.call.type), strict=False)
        # the cast makes NULL of a sum that does not fit
        overflow = (value.is_null() & total.is_not_null()) & (counts > 0)
        value = value.zip_with(counts > 0, pl.Series([None], dtype=value.dtype).new_from_index(0, merged.height))
        return Finished(value.alias(self.call.slot), overflow if overflow.any() else None)

    def _decimal_sums(self, merged: pl.DataFrame, dtype: Decimal) -> Finished:
        """Sums as decimals. A difference of scale between argument and result widens, and never rounds."""
        sums = totals(merged, self.total)
        widen = 10 ** (dtype.scale - scale_of(argument_type(self.call)))
        limit = 10**dtype.precision
        values: list[decimal.Decimal | None] = []
        overflow = []
        for total, count in zip(sums.numbers, counts_of(merged, self.rows).to_list(), strict=True):
            scaled = (total << sums.exponent) * widen
            fits = abs(scaled) < limit
            overflow.append(count > 0 and not fits)
            values.append(decimal.Decimal(scaled).scaleb(-dtype.scale, _DECIMAL) if count > 0 and fits else None)
        made = pl.Series(self.call.slot, values, dtype=polars_type(dtype))
        return Finished(made, pl.Series(overflow, dtype=pl.Boolean) if any(overflow) else None)

    def _quotients(self, merged: pl.DataFrame, *, divide: bool) -> Finished:
        """Sums as floats, or divided by their counts; NULL for a count of 0."""
        counts = counts_of(merged, self.rows)
        scale = scale_of(argument_type(self.call))
        values, proven = fast_quotients(merged, self.total, counts if divide else None, scale)
        unproven = (~proven & (counts > 0)).arg_true()
        if unproven.len():
            some, sums = counts.gather(unproven).to_list(), totals(merged[unproven], self.total)
            exact = [
                scaled_quotient(total, (count if divide else 1) * 10**scale, sums.exponent)
                for total, count in zip(sums.numbers, some, strict=True)
            ]
            values = values.scatter(unproven, exact)
        if counts.min() == 0:
            values = values.set(counts == 0, None)
        if (special := specials(merged, self.total)) is not None:
            values = pl.Series(with_specials(values.to_list(), special), dtype=pl.Float64)
        return Finished(values.cast(polars_type(self.call.type)).alias(self.call.slot))


def state(call: AggregateCall, needs: StateNeeds) -> SumState:
    """The state of a call."""
    return SumState(call, *sum_lanes(call, needs))


def sum_lanes(call: AggregateCall, needs: StateNeeds) -> tuple[str, str, Values | None]:
    """The lanes of the count and of the sum of a call's argument; of its distinct values, also these."""
    dtype = argument_type(call)
    column = needs.argument(call, number_form(call))
    values = needs.values_of(column, is_counted=False) if call.distinct else None

    def lane(name: str) -> Lane:
        if dtype in FLOAT_TYPES:
            return FloatSum(name, column, squares=False)
        return WholeSum(name, column, wide=bits_of(dtype) > 64)

    return count_lane(needs, column, values), needs.lane("sum", column, lane, values), values


def number_form(call: AggregateCall) -> Form:
    """The form in which numbers are summed."""
    if call.distinct:
        return Form.NORMAL
    return Form.DOUBLE if argument_type(call) in FLOAT_TYPES else Form.RAW


def argument_type(call: AggregateCall) -> DataType:
    """The type of the argument of a call that has one."""
    assert call.argument is not None, "only count(*) has no argument"
    return call.argument.type


def bits_of(dtype: DataType) -> int:
    """An upper bound of the bits of a type's whole numbers."""
    match dtype:
        case Decimal(precision, _):
            return 32 if precision <= 9 else 64 if precision <= 18 else 128
        case Primitive.INT64:
            return 64
        case _:
            return 32


def given_sum(call: AggregateCall, rows: str, total: str) -> GivenColumn:
    """The sum of the values, in the widest type of its kind."""
    dtype = argument_type(call)
    kind = Primitive.FLOAT64 if dtype in FLOAT_TYPES else Decimal(DIGITS_MAX, scale_of(dtype))
    return GivenColumn("sum", kind, meaning("sum", call), nullable=True, becomes=LaneOf(total), counted_by=rows)
