from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.aggregates.exact.limbs import LIMB_BITS, Limbs, split, split_squares

VALUES = st.lists(
    st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 2.0**400, -(2.0**400), 2.0**-400, 1.7976931348623157e308]),
    max_size=12,
)


def exact(limbs: Limbs, row: int) -> Fraction:
    return sum(
        (Fraction(int(part[row])) * Fraction(2) ** (LIMB_BITS * number) for number, part in limbs.items()), Fraction(0)
    )


def assert_small_whole_numbers(limbs: Limbs) -> None:
    for part in limbs.values():
        assert (part == np.round(part)).all()
        assert (np.abs(part) <= 2.0**33).all(), "2^18 rows of them add up exactly"


@given(VALUES)
def test_limbs_are_the_values(values: list[float]) -> None:
    limbs = split(np.array(values, dtype=np.float64))
    assert_small_whole_numbers(limbs)
    assert [exact(limbs, row) for row in range(len(values))] == [Fraction(value) for value in values]


@given(VALUES)
def test_limbs_of_squares_are_the_squares(values: list[float]) -> None:
    limbs = split_squares(np.array(values, dtype=np.float64))
    assert_small_whole_numbers(limbs)
    assert [exact(limbs, row) for row in range(len(values))] == [Fraction(value) ** 2 for value in values]


def test_values_of_like_size_need_three_limbs() -> None:
    assert sorted(split(np.linspace(1.0, 1000.0, 99))) == [-2, -1, 0]
