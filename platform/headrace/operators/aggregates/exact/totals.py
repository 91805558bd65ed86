"""Exact sums in merged state columns: whole numbers by group, and the quotients of floats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.core.types import DataType, Decimal
from headrace.kernels.group.exact_quotients import exact_quotients
from headrace.operators.aggregates.columns import SUM
from headrace.operators.aggregates.state import filled


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums per group as whole numbers times 2^exponent."""

    numbers: list[int]
    exponent: int


def units(merged: pl.DataFrame, lane: str) -> dict[str, int]:
    """The columns of a sum's whole numbers, each with its power of two."""
    prefix = f"{SUM}{lane}."
    found = {}
    for name in merged.columns:
        part = name.rpartition(".")[2]
        if name.startswith(prefix) and part.startswith("e"):
            found[name] = int(part[1:])
    return found


def totals(merged: pl.DataFrame, lane: str) -> Totals:
    """A lane's columns of units as one whole number per group."""
    exponents = units(merged, lane)
    lowest = min(exponents.values(), default=0)
    numbers = [0] * merged.height
    for name, exponent in exponents.items():
        shift = exponent - lowest
        column = filled(merged.get_column(name)).to_list()
        numbers = [total + (number << shift) for total, number in zip(numbers, column, strict=True)]
    return Totals(numbers, lowest)


def scale_of(dtype: DataType) -> int:
    """Decimal places of the whole number that a value of the type is kept as."""
    return dtype.scale if isinstance(dtype, Decimal) else 0


def specials(merged: pl.DataFrame, lane: str) -> list[float | None] | None:
    """The NaN or infinity that a group's values sum to, None for a group of finite values; None if all groups are
    finite."""
    prefix = f"{SUM}{lane}."
    if f"{prefix}nan" not in merged.columns:
        return None
    nan, pinf, ninf = (filled(merged.get_column(prefix + name)).to_list() for name in ("nan", "pinf", "ninf"))
    return [_special(*counts) for counts in zip(nan, pinf, ninf, strict=True)]


def _special(nan: int, pinf: int, ninf: int) -> float | None:
    if nan or (pinf and ninf):
        return math.nan
    return math.inf if pinf else -math.inf if ninf else None


def with_specials(values: list[float | None], special: Sequence[float | None] | None) -> list[float | None]:
    """Values, replaced where a group has a NaN or an infinity. NULL stays NULL."""
    if special is None:
        return values
    pairs = zip(values, special, strict=True)
    return [value if value is None or other is None else other for value, other in pairs]


def fast_quotients(
    merged: pl.DataFrame, lane: str, counts: pl.Series | None, scale: int
) -> tuple[pl.Series, pl.Series]:
    """Sums, divided by counts if given, by float arithmetic, and the mask of those proven to be correctly rounded."""
    exponents = units(merged, lane)
    # a sum over no units is 0.0 exactly
    if not exponents:
        return pl.repeat(0.0, merged.height, eager=True), pl.repeat(value=True, n=merged.height, eager=True)
    columns = [filled(merged.get_column(name)).cast(pl.Int64, strict=False) for name in exponents]
    # 128-bit values beyond int64 became NULL in the cast above: these groups are computed on whole numbers instead
    fits = all(abs(unit) < EXPONENT_MAX for unit in exponents.values()) and not any(map(pl.Series.has_nulls, columns))
    if not fits or scale:
        return pl.repeat(0.0, merged.height, eager=True), pl.repeat(value=False, n=merged.height, eager=True)
    lanes = [(column.to_numpy(), unit) for column, unit in zip(columns, exponents.values(), strict=True)]
    divisors = None if counts is None else counts.clip(lower_bound=1).to_numpy()
    values, proven = quotients(lanes, divisors)
    return pl.Series(values), pl.Series(proven)


# ---- rounding --------------------------------------------------------------------------------------------------------
# Converts exact sums to float64 for many groups at once: float arithmetic with error bounds, and a proof per group.
#
# A result is proven only if every value within its error bound rounds to the same float64. The caller computes the
# other groups on whole numbers (`rational`). So the bounds affect the speed, and never the result. The operations are
# error-free arithmetic: two-sum (Knuth) and two-product (Dekker).

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

_SPLITTER = 134217729.0
_MASK = (1 << 32) - 1
EXPONENT_MAX = 800
"""Largest exponent of a unit: products of larger or smaller units could leave the range of float64."""


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    product = a * b
    spread = a * _SPLITTER
    a_high = spread - (spread - a)
    a_low = a - a_high
    spread = b * _SPLITTER
    b_high = spread - (spread - b)
    b_low = b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def quotients(lanes: Sequence[tuple[Whole, int]], counts: Whole | None) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Sums of whole numbers times 2^exponent (each lane: numbers, exponent), divided by counts > 0 if given.

    Returns the values, and the mask of those that are proven to be exact results rounded once. The kernel computes them
    on whole numbers; without it, float arithmetic with error bounds proves most of them.
    """
    if (compiled := exact_quotients(lanes, counts)) is not None:
        return compiled
    return float_quotients(lanes, counts)


def float_quotients(lanes: Sequence[tuple[Whole, int]], counts: Whole | None) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """The same by float arithmetic."""
    high, low, unsure = _sums(lanes)
    if counts is not None:
        high, low, unsure = _divided(high, low, unsure, counts.astype(np.float64))
    exact = unsure == 0.0
    # widened by one float: adding the bound to `low` may round it away
    least = np.where(exact, low, np.nextafter(low - unsure, -np.inf))
    most = np.where(exact, low, np.nextafter(low + unsure, np.inf))
    value = high + least
    proven = value == high + most
    tame = (np.abs(value) > 2.0**-EXPONENT_MAX) & (np.abs(value) < 2.0**EXPONENT_MAX)
    nothing = (high == 0.0) & (low == 0.0) & exact
    # adding 0.0 turns -0.0 into 0.0, the result of whole numbers
    return value + 0.0, (proven & tame) | nothing


def _sums(lanes: Sequence[tuple[Whole, int]]) -> tuple[Floats, Floats, Floats]:
    """The sum as high + low, with |high| >> |low|, and a bound of the error."""
    size = lanes[0][0].size
    high, low, unsure = np.zeros(size), np.zeros(size), np.zeros(size)
    for numbers, exponent in sorted(lanes, key=lambda lane: -lane[1]):
        # halves of 32 bits are exact as float64
        for half, unit in ((numbers >> 32, exponent + 32), (numbers & _MASK, exponent)):
            high, rest = _two_sum(high, half.astype(np.float64) * 2.0**unit)
            low, lost = _two_sum(low, rest)
            unsure = unsure + np.abs(lost)
    high, low = _two_sum(high, low)
    return high, low, unsure * (1.0 + 2.0**-40)


def _divided(high: Floats, low: Floats, unsure: Floats, counts: Floats) -> tuple[Floats, Floats, Floats]:
    """(high + low +- unsure) / counts in the same form: a float quotient, and the quotient of its exact remainder."""
    first = high / counts
    product, error = _two_product(first, counts)
    rest, lost = _two_sum((high - product) - error, low)  # high - first * counts is a float64, exactly
    second = rest / counts
    product, error = _two_product(second, counts)
    inexact = (product != rest) | (error != 0.0)
    # 2^-51: four times the unit roundoff 2^-53, covers the rounding of `second`; the factor below covers this sum's own
    # rounding
    missing = np.where(inexact, np.abs(second) * 2.0**-51, 0.0) + (unsure + np.abs(lost)) / counts
    return first, second, missing * (1.0 + 2.0**-40)
