"""median and quantile_cont: the values of a group with their counts, and the value at a rank, exact.

The quantile of n values at share q lies at the rank (n - 1) q of the sorted values, counted from 0. Between two values
it is interpolated, on whole numbers, and rounded once to float64. NaN is the greatest value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl

from headrace.core.types import polars_type
from headrace.expr.compiled import AggregateCall
from headrace.operators.aggregates.columns import NANMAX
from headrace.operators.aggregates.exact.totals import scale_of
from headrace.operators.aggregates.given import GivenColumn, given_values
from headrace.operators.aggregates.needs import COUNTS, Form, StateNeeds, Values
from headrace.operators.aggregates.state import Finished, column_of
from headrace.operators.aggregates.sums import argument_type

_HALF = Fraction(1, 2)
Number = int | float


@dataclass(frozen=True, slots=True)
class Quantile:
    """Computes the quantile of each group from its values.

    name   the result's column; a group occurs once, so that a merge returns the result unchanged
    scale  the values' decimal places
    """

    name: str
    column: str
    share: Fraction
    scale: int

    def __call__(self, values: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """The result per group of rows that are sorted by group and value."""
        counts = values.get_column(COUNTS) if COUNTS in values.columns else pl.repeat(1, values.height, eager=True)
        counted = pl.DataFrame([*values.select(by).get_columns(), counts.alias(COUNTS)])
        if by:
            groups = counted.group_by(by, maintain_order=True).agg(pl.col(COUNTS).sum())
        else:
            groups = counted.sum() if values.height else counted
        sizes = groups.get_column(COUNTS).to_numpy()
        ranks = (sizes - 1) * self.share.numerator
        # the rank over all rows: those of earlier groups come before
        lower = np.cumsum(sizes) - sizes + ranks // self.share.denominator
        rest = ranks % self.share.denominator
        last = np.cumsum(counts.to_numpy())
        numbers = values.get_column(self.column).to_physical()
        low, high = (
            numbers.gather(np.searchsorted(last, rank, side="right")).to_list() for rank in (lower, lower + (rest > 0))
        )
        result = pl.Series(self.name, self._between(zip(low, high, rest.tolist(), strict=True)), dtype=pl.Float64)
        return groups.drop(COUNTS).with_columns(result)

    def _between(self, ranks: Iterable[tuple[Number, Number, int]]) -> list[float]:
        unit, parts = 10**self.scale, self.share.denominator
        return [_interpolated(low, high, rest, parts, unit) for low, high, rest in ranks]


def _interpolated(low: Number, high: Number, rest: int, parts: int, unit: int) -> float:
    """(low + (high - low) * rest / parts) / unit, rounded once."""
    if isinstance(low, int) and isinstance(high, int):
        return (low * (parts - rest) + high * rest) / (parts * unit)
    if not rest or low == high:
        return float(low)
    if not (math.isfinite(low) and math.isfinite(high)):
        return low + high
    return float(Fraction(low) + (Fraction(high) - Fraction(low)) * Fraction(rest, parts))


@dataclass(frozen=True, slots=True)
class QuantileState:
    """The state of a call. values: the values of its argument; quantile: what is computed from them."""

    call: AggregateCall
    values: Values
    quantile: Quantile
    is_one_value: bool = False

    def given(self) -> Sequence[GivenColumn]:
        """The values."""
        return [given_values(self.call, self.values.state, is_counted=self.values.is_counted)]

    def finish(self, merged: pl.DataFrame) -> Finished:
        """The quantile; NULL of no values."""
        kind = polars_type(self.call.type)
        return Finished(column_of(merged, self.quantile.name, kind).cast(kind).alias(self.call.slot))


def state(call: AggregateCall, needs: StateNeeds) -> QuantileState:
    """The state of a call."""
    (share,) = call.shares or (_HALF,)
    column = needs.argument(call, Form.NORMAL)
    values = needs.values_of(column, is_counted=not call.distinct)
    name = f"{NANMAX}{values.state}_quantile_{share.numerator}_{share.denominator}"
    quantile = Quantile(name, column, share, scale_of(argument_type(call)))
    values.add_fold(name, quantile)
    return QuantileState(call, values, quantile)
