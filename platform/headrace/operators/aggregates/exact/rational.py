"""Exact whole numbers to float64, rounded once: sums of limbs, quotients, variances and their roots.

Owns the last step of exact aggregation, on Python integers. A sum is (number, exponent): number * 2^exponent.
"""

from __future__ import annotations

import math


def quotient(numerator: int, denominator: int) -> float:
    """numerator / denominator (denominator > 0), rounded once to nearest even; beyond float64, an infinity."""
    try:
        return numerator / denominator  # correctly rounded for integers of any size
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def scaled_quotient(numerator: int, denominator: int, exponent: int) -> float:
    """numerator * 2^exponent / denominator, rounded once."""
    if exponent >= 0:
        return quotient(numerator << exponent, denominator)
    return quotient(numerator, denominator << -exponent)


def scaled_root(numerator: int, denominator: int, exponent: int) -> float:
    """sqrt(numerator * 2^exponent / denominator) of a number >= 0 with an even exponent, rounded once.

    The integer root has at least 64 bits. A nonzero remainder sets its last bit (the sticky bit of rounding), which is
    beyond the 53 significant ones: it distinguishes a half from more than a half.
    """
    assert exponent % 2 == 0, "a root halves the exponent"
    if numerator == 0:
        return 0.0
    lacking = 130 - (numerator.bit_length() - denominator.bit_length())
    widen = max(0, lacking + lacking % 2)
    whole, rest = divmod(numerator << widen, denominator)
    root = math.isqrt(whole)
    sticky = 1 if rest or root * root != whole else 0
    return scaled_quotient(2 * root + sticky, 1, (exponent - widen) // 2 - 1)


def variance(count: int, total: int, squares: int, exponent: int, *, unit: int, sample: bool, root: bool) -> float:
    """Variance, or its root, of `count` values, rounded once.

    Their sum is total * 2^exponent / unit and the sum of their squares is squares * 2^(2 exponent) / unit^2. Requires
    count >= 1, and >= 2 for a sample.
    """
    spread = count * squares - total * total
    denominator = count * (count - 1 if sample else count) * unit * unit
    if root:
        return scaled_root(spread, denominator, 2 * exponent)
    return scaled_quotient(spread, denominator, 2 * exponent)
