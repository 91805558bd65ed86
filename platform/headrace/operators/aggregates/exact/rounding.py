"""Converts exact sums to float64 for many groups at once: float arithmetic with error bounds, and a proof per group.

A result is proven only if every value within its error bound rounds to the same float64. The caller computes the other
groups on whole numbers (`rational`). So the bounds affect the speed, and never the result. The operations are
error-free arithmetic: two-sum (Knuth) and two-product (Dekker).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from headrace.kernels.group.exact_quotients import exact_quotients

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
