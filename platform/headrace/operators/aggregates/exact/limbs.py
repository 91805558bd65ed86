"""Sums of float64 without rounding: every value is split into limbs of 32 bits on a fixed grid, and limbs add exactly.

Owns only the error-free split of numpy arrays; knows neither keys nor frames. Limb q counts units of 2^(32 q). Every
limb of a split is a whole number of at most 2^33, held in a float64, so a float sum over `ROWS_MAX` of them is exact in
any order. These sums are kept in int64 columns, which add exactly for 2^9 sums between two carries
(`columns.carried`).

The split needs no bit manipulation: with s = 1.5 * 2^52 units, (x + s) - s is x rounded to whole units, and the
remainder x - that is exact. Both need round-to-nearest, which numpy uses; polars may simplify such terms away, so numpy
does it.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LIMB_BITS = 32
ROWS_MAX = 1 << 18
"""Rows of one split over which limbs may be summed as float64."""

_SHIFT = 19
"""Limbs by which very large and very small values are shifted, so that no step over- or underflows."""
_LARGE, _SMALL = 2.0**400, 2.0**-400
_DOWN, _UP = 2.0 ** (-LIMB_BITS * _SHIFT), 2.0 ** (LIMB_BITS * _SHIFT)
_SPLITTER = 134217729.0  # 2^27 + 1: Veltkamp's constant for halves of 26 bits

Limbs = dict[int, Floats]
"""Limb number to one whole number per row."""


def _largest(values: Floats) -> float:
    return max(float(values.max()), -float(values.min())) if values.size else 0.0


def split(values: Floats) -> Limbs:
    """Finite values as limbs: sum over q of limbs[q] * 2^(32 q) is each value, exactly."""
    limbs: Limbs = {}
    _split_into(limbs, values, 0)
    return limbs


def split_squares(values: Floats) -> Limbs:
    """The squares of finite values as limbs, exactly (a square is a rounded product and its error)."""
    limbs: Limbs = {}
    largest = _largest(values)
    if largest >= _LARGE:
        large = np.abs(values) >= _LARGE
        _square_into(limbs, np.where(large, values, 0.0) * _DOWN, 2 * _SHIFT)
        values = np.where(large, 0.0, values)
    small = (np.abs(values) < _SMALL) & (values != 0.0)
    if small.any():
        _square_into(limbs, np.where(small, values, 0.0) * _UP, -2 * _SHIFT)
        values = np.where(small, 0.0, values)
    _square_into(limbs, values, 0)
    return limbs


def _square_into(limbs: Limbs, values: Floats, base: int) -> None:
    """Adds the squares of values that are 0 or within 2^+-466, whose products neither over- nor underflow."""
    product = values * values
    spread = values * _SPLITTER
    high = spread - (spread - values)
    low = values - high
    # Dekker's two-product: the rounding error of `product`, exactly
    error = ((high * high - product) + 2.0 * (high * low)) + low * low
    _split_into(limbs, product, base)
    _split_into(limbs, error, base)


def _split_into(limbs: Limbs, rest: Floats, base: int) -> None:
    """Adds the limbs of `rest` times 2^(32 base) to `limbs`, from the largest limb down until nothing is left."""
    largest = _largest(rest)
    if largest >= _LARGE:
        large = np.abs(rest) >= _LARGE
        _split_into(limbs, np.where(large, rest, 0.0) * _DOWN, base + _SHIFT)
        rest = np.where(large, 0.0, rest)
        largest = _largest(rest)
    while largest > 0.0:
        if largest < _SMALL:
            rest, base, largest = rest * _UP, base - _SHIFT, largest * _UP
        limb = (
            math.frexp(largest)[1] - 1
        ) // LIMB_BITS  # units of at most the largest value, which has <= 32 bits more
        unit = 2.0 ** (LIMB_BITS * limb)
        rounder = 1.5 * 2.0**52 * unit
        whole = (rest + rounder) - rounder
        rest = rest - whole
        # `unit` is a power of two, so this product is exact
        whole *= 1.0 / unit
        number = base + limb
        limbs[number] = limbs[number] + whole if number in limbs else whole
        largest = _largest(rest)
