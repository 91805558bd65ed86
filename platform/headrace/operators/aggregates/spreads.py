"""Variances and standard deviations: count, sum and sum of squares, each exact."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from headrace.core.types import FLOAT_TYPES, DataType, Decimal, Primitive, polars_type
from headrace.expr.compiled import AggregateCall
from headrace.kernels.group.group_by import Aggregate
from headrace.operators.aggregates.columns import SUM
from headrace.operators.aggregates.count import given_count
from headrace.operators.aggregates.exact.rational import variance
from headrace.operators.aggregates.exact.totals import scale_of, specials, totals, with_specials
from headrace.operators.aggregates.given import GivenColumn, SquaresOf, given_values, meaning
from headrace.operators.aggregates.needs import StateNeeds, Values
from headrace.operators.aggregates.state import Finished, Lane, counts_of
from headrace.operators.aggregates.sums import (
    DIGITS_MAX,
    HALF_BITS,
    FloatSum,
    argument_type,
    bits_of,
    given_sum,
    halves,
    number_form,
    sum_lanes,
)

DEVIATIONS_OF = "sum of squared deviations from the mean"


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
            return halves(number * number, self.id, 0)
        high, low = number // (1 << HALF_BITS), number % (1 << HALF_BITS)
        # each product has up to 127 bits, so it is summed in two columns (`a`, `b`, `c` distinguish their names)
        return [
            *halves(low * low, f"{self.id}.a", 0),
            # the middle term of the square counts twice: one more bit of exponent
            *halves(high * low, f"{self.id}.b", HALF_BITS + 1),
            *halves(high * high, f"{self.id}.c", 2 * HALF_BITS),
        ]

    def aggregate(self, dtype: pl.DataType) -> Aggregate | None:
        """None: the kernel has no squares of whole numbers."""
        return None

    def supplied(self, values: pl.Series) -> list[pl.Series]:
        """Never called: sums of squares are supplied in other ways (`operators.bootstrap.spread`)."""
        raise AssertionError("squares are no values of their own")


@dataclass(frozen=True, slots=True)
class SpreadState:
    """The state of a call. rows, total, squares: its lanes; values: the distinct values that they read."""

    call: AggregateCall
    rows: str
    total: str
    squares: str
    values: Values | None
    is_one_value: bool = False

    def given(self) -> Sequence[GivenColumn]:
        """Sum, count, and one of two alternatives: the sum of squares, which is exact for whole numbers, or the sum of
        squared deviations, which avoids the cancellation of floats."""
        if self.values is not None:
            return [given_values(self.call, self.values.state, is_counted=False)]
        total = given_sum(self.call, self.rows, self.total)
        return [total, given_count(self.call, self.rows, required=True), *self._given_squares()]

    def _given_squares(self) -> Sequence[GivenColumn]:
        dtype = argument_type(self.call)
        unit = None if dtype in FLOAT_TYPES else 10 ** scale_of(dtype)
        squares, deviations = (
            SquaresOf(self.squares, deviations, self.rows, self.total, unit) for deviations in (False, True)
        )
        kind = _squares_type(dtype)
        text = meaning(DEVIATIONS_OF, self.call) + ("" if kind is None else "; or squares")
        m2 = GivenColumn("m2", Primitive.FLOAT64, text, required=kind is None, nullable=True, becomes=deviations)
        if kind is None:
            return [m2]
        text = f"{meaning('sum of squares', self.call)}; or m2"
        return [GivenColumn("squares", kind, text, required=False, nullable=True, becomes=squares), m2]

    def finish(self, merged: pl.DataFrame) -> Finished:
        """Variances or deviations; NULL for too few values, NaN if a value is not finite."""
        name = self.call.function.name
        is_sample, is_root = not name.endswith("_pop"), name.startswith("stddev")
        sums, squares = totals(merged, self.total), totals(merged, self.squares)
        exponent = min(sums.exponent, squares.exponent // 2)
        unit = 10 ** scale_of(argument_type(self.call))
        values: list[float | None] = []
        counts = counts_of(merged, self.rows).to_list()
        for count, total, square in zip(counts, sums.numbers, squares.numbers, strict=True):
            if count < 1 + is_sample:
                values.append(None)
                continue
            values.append(
                variance(
                    count,
                    total << (sums.exponent - exponent),
                    square << (squares.exponent - 2 * exponent),
                    exponent,
                    unit=unit,
                    sample=is_sample,
                    root=is_root,
                )
            )
        special = specials(merged, self.total)
        spread = None if special is None else [None if value is None else math.nan for value in special]
        floats = pl.Series(self.call.slot, with_specials(values, spread), dtype=pl.Float64)
        return Finished(floats.cast(polars_type(self.call.type)))


def state(call: AggregateCall, needs: StateNeeds) -> SpreadState:
    """The state of a call."""
    dtype, column = argument_type(call), needs.argument(call, number_form(call))
    rows, total, values = sum_lanes(call, needs)

    def lane(name: str) -> Lane:
        return (
            FloatSum(name, column, squares=True) if dtype in FLOAT_TYPES else WholeSquares(name, column, bits_of(dtype))
        )

    return SpreadState(call, rows, total, needs.lane("squares", column, lane, values), values)


def _squares_type(dtype: DataType) -> DataType | None:
    """The type in which a sum of squares of such values is supplied; None if no type has enough decimal places."""
    if dtype in FLOAT_TYPES:
        return Primitive.FLOAT64
    scale = 2 * scale_of(dtype)
    return Decimal(DIGITS_MAX, scale) if scale < DIGITS_MAX else None
