"""Sums of squares from supplied values: the exact number from which a spread (var, stddev) continues. Pure.

A job keeps a spread as count, sum and sum of squares, each exact. The sum of squares is never less than the squared sum
divided by the count: otherwise the variance would be negative. A supplied sum of squares of floats has been rounded. If
it is too small, it is corrected if rounding explains the difference, and rejected otherwise. The arithmetic uses
Python's numbers of any size, because supplied values are read only once.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import polars as pl

from headrace.operators.aggregates.columns import SUM
from headrace.operators.aggregates.exact.limbs import LIMB_BITS
from headrace.operators.aggregates.given import SquaresOf

_ROUNDED = Fraction(1, 1 << 20)
"""Relative error that a supplied sum of squares of floats may have."""
_KEPT_BITS = 192
"""Bits that are kept of a quotient with an infinite binary expansion."""
_WHOLE_BITS = 63
"""Bits per column of units of whole numbers, as `aggregates.sums` splits them."""


@dataclass(frozen=True, slots=True)
class GivenSpread:
    """Rows with their counts, sums, and sums of squares, or of squared deviations from the mean.

    of      the lane, and which of the two was supplied
    given   the supplied sums of squares, or of squared deviations
    """

    of: SquaresOf
    count: pl.Series
    total: pl.Series
    given: pl.Series

    def squares(self) -> list[tuple[int, int] | None]:
        """The sum of squares of each row as (number, exponent), which is number * 2^exponent. None for a row with a
        count of 0, or with a sum that is not finite. Raises ImpossibleSpreadError."""
        totals, given = _exact(self.total, 1), _exact(self.given, 1 if self.of.unit is None else self.of.unit**2)
        counts = self.count.to_list()
        return [self._squares(row, *values) for row, values in enumerate(zip(counts, totals, given, strict=True))]

    def _squares(self, row: int, count: int, total: Fraction | None, given: Fraction | None) -> tuple[int, int] | None:
        if not count or total is None:
            return None
        if given is None or given < 0:
            raise ImpossibleSpreadError(self.of, row)
        least = total * total / count
        exact = least + given if self.of.deviations else given
        if exact < least and (self.of.unit is not None or least - exact > _ROUNDED * exact):
            raise ImpossibleSpreadError(self.of, row)
        if self.of.unit is not None:
            return max(math.ceil(least), round(exact)), 0
        return _in_units(max(least, exact))

    def columns(self) -> list[pl.Series]:
        """The state columns of the lane. Raises ImpossibleSpreadError."""
        kind, bits = (pl.Int64(), LIMB_BITS) if self.of.unit is None else (pl.Int128(), _WHOLE_BITS)
        cut = _cut(self.squares(), bits)
        return [
            pl.Series(f"{SUM}{self.of.lane}.e{exponent}", values, dtype=kind)
            for exponent, values in sorted(cut.items())
        ]


class ImpossibleSpreadError(Exception):
    """No values have this count, sum and sum of squares: row `row` of the spread `of`. `bootstrap.state` renders the
    message."""

    def __init__(self, of: SquaresOf, row: int) -> None:
        super().__init__(of, row)
        self.of = of
        self.row = row


def _exact(values: pl.Series, unit: int) -> Iterable[Fraction | None]:
    """Values as exact numbers: floats times `unit`, decimals as their scaled integers; None: not finite."""
    if isinstance(values.dtype, pl.Decimal):
        return [None if value is None else Fraction(value) for value in values.to_physical().to_list()]
    return [None if value is None or not math.isfinite(value) else Fraction(value) * unit for value in values.to_list()]


def _in_units(value: Fraction) -> tuple[int, int]:
    """A number >= 0 as number * 2^exponent: exact, or rounded up if its binary expansion is infinite."""
    below = value.denominator
    if below & (below - 1) == 0:
        exponent = 1 - below.bit_length()
    else:
        exponent = value.numerator.bit_length() - below.bit_length() - _KEPT_BITS
    exponent -= exponent % LIMB_BITS
    up = -value.numerator << max(0, -exponent)
    return -(up // (below << max(0, exponent))), exponent


def _cut(numbers: Sequence[tuple[int, int] | None], bits: int) -> dict[int, list[int]]:
    """Exponent -> the digit of each number at that exponent."""
    cut: dict[int, list[int]] = defaultdict(lambda: [0] * len(numbers))
    for row, number in enumerate(numbers):
        left, exponent = (0, 0) if number is None else number
        while left:
            left, digit = left >> bits, left & ((1 << bits) - 1)
            if digit:
                cut[exponent][row] = digit
            exponent += bits
    return cut
