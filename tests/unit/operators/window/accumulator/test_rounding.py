from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.window.accumulator.rational import scaled_quotient
from headrace.operators.window.accumulator.rounding import quotients
from support.suite.properties import weighted

NUMBERS = st.integers(-(2**62), 2**62) | st.integers(-4, 4) | st.sampled_from([2**53 + 1, 2**54 + 2, 2**32, -(2**52)])
GROUPS = st.lists(
    st.tuples(NUMBERS, NUMBERS, NUMBERS, st.integers(1, 9) | st.integers(1, 2**40) | st.just(2**30)),
    min_size=1,
    max_size=40,
)


@weighted(3)
@given(GROUPS, st.sampled_from([-64, -32, 0, 96, -700, 700]), st.booleans())
def test_what_is_proven_is_what_whole_numbers_give(
    groups: list[tuple[int, int, int, int]], exponent: int, divide: bool
) -> None:
    units = [exponent, exponent + 32, exponent + 64]
    columns = np.array(groups, dtype=np.int64).T
    lanes = list(zip(columns[:3], units, strict=True))
    values, proven = quotients(lanes, columns[3] if divide else None)
    for value, sure, (*numbers, count) in zip(values.tolist(), proven.tolist(), groups, strict=True):
        total = sum(number << (unit - exponent) for number, unit in zip(numbers, units, strict=True))
        exact = scaled_quotient(total, count if divide else 1, exponent)
        assert not sure or struct.pack(">d", value) == struct.pack(">d", exact)


def test_a_hair_above_a_half_step_is_not_taken_for_the_half_step() -> None:
    lanes = [(np.array([number], dtype=np.int64), unit) for number, unit in ((2**53 + 1, 64), (1, 0))]
    values, proven = quotients(lanes, None)
    assert values[0] == (2.0**53 + 2) * 2.0**64 or not proven[0]


def test_ordinary_sums_and_averages_are_proven() -> None:
    random = np.random.default_rng(1)
    limbs = [(random.integers(-(2**45), 2**45, 20_000), unit) for unit in (-64, -32, 0)]
    for counts in (None, random.integers(1, 1000, 20_000)):
        _, proven = quotients(limbs, counts)
        assert proven.mean() > 0.99
