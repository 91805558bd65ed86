from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.aggregates.exact.rational import quotient, scaled_quotient, scaled_root
from support.suite.properties import weighted


def test_quotients_beyond_float64_are_infinite() -> None:
    assert quotient(10**400, 3) == math.inf
    assert quotient(-(10**400), 3) == -math.inf


@given(st.integers(-(2**80), 2**80), st.integers(1, 2**70), st.integers(-1100, 900))
def test_scaled_quotients_round_once(numerator: int, denominator: int, exponent: int) -> None:
    exact = Fraction(numerator, denominator) * Fraction(2) ** exponent
    assert scaled_quotient(numerator, denominator, exponent) == exact.numerator / exact.denominator


@weighted(2)
@given(st.integers(0, 2**130), st.integers(1, 2**70), st.integers(-1200, 900))
def test_roots_are_the_nearest_double(numerator: int, denominator: int, half: int) -> None:
    found = scaled_root(numerator, denominator, 2 * (half // 2))
    exact = Fraction(numerator, denominator) * Fraction(2) ** (2 * (half // 2))
    below, above = math.nextafter(found, -math.inf), math.nextafter(found, math.inf)
    if found:
        assert ((Fraction(below) + Fraction(found)) / 2) ** 2 <= exact
    assert exact <= ((Fraction(found) + Fraction(above)) / 2) ** 2


@given(st.floats(0, 1e150), st.integers(1, 1000))
def test_roots_of_squares_are_exact(value: float, denominator: int) -> None:
    square = Fraction(value) ** 2 * denominator
    assert scaled_root(square.numerator, square.denominator * denominator, 0) == value


def test_a_root_a_hair_above_a_half_step_rounds_up() -> None:
    half = 2**54 + 2  # 2^53 + 1, times 2: between two doubles
    assert scaled_root(half * half, 1, -2) == 2.0**53
    assert scaled_root(half * half * 2**200 + 1, 1, -202) == 2.0**53 + 2
