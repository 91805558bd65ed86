from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.kernels.group.exact_quotients import exact_quotients
from headrace.operators.aggregates.exact.rational import scaled_quotient
from headrace.operators.aggregates.exact.totals import EXPONENT_MAX, Floats, Whole, float_quotients, quotients
from support.suite.properties import weighted

Rounded = Callable[[Sequence[tuple[Whole, int]], Whole | None], tuple[Floats, npt.NDArray[np.bool_]]]
COMPILED = exact_quotients([(np.zeros(1, dtype=np.int64), 0)], None) is not None
NUMBERS = st.integers(-(2**62), 2**62) | st.integers(-4, 4) | st.sampled_from([2**53 + 1, 2**54 + 2, 2**32, -(2**52)])
GROUPS = st.lists(
    st.tuples(
        NUMBERS, NUMBERS, NUMBERS, st.integers(1, 9) | st.integers(1, 2**40) | st.just(2**30) | st.just(2**32 - 1)
    ),
    min_size=1,
    max_size=40,
)


@weighted(3)
@pytest.mark.parametrize("rounded", [quotients, float_quotients])
@given(GROUPS, st.sampled_from([-1088, -64, -32, 0, 96, -700, 700, 960]), st.booleans(), st.sampled_from([32, 64, 31]))
def test_what_is_proven_is_what_whole_numbers_give(
    rounded: Rounded, groups: list[tuple[int, int, int, int]], exponent: int, divide: bool, step: int
) -> None:
    units = [exponent, exponent + step, exponent + 2 * step]
    if (rounded is float_quotients or step == 31 or not COMPILED) and max(map(abs, units)) >= EXPONENT_MAX:
        return
    columns = np.array(groups, dtype=np.int64).T
    lanes = list(zip(columns[:3], units, strict=True))
    values, proven = rounded(lanes, columns[3] if divide else None)
    for value, sure, (*numbers, count) in zip(values.tolist(), proven.tolist(), groups, strict=True):
        total = sum(number << (unit - exponent) for number, unit in zip(numbers, units, strict=True))
        exact = scaled_quotient(total, count if divide else 1, exponent)
        assert not sure or struct.pack(">d", value) == struct.pack(">d", exact)


@pytest.mark.parametrize("rounded", [quotients, float_quotients])
def test_a_hair_above_a_half_step_is_not_taken_for_the_half_step(rounded: Rounded) -> None:
    lanes = [(np.array([number], dtype=np.int64), unit) for number, unit in ((2**53 + 1, 64), (1, 0))]
    values, proven = rounded(lanes, None)
    assert values[0] == (2.0**53 + 2) * 2.0**64 or not proven[0]


@pytest.mark.parametrize("rounded", [quotients, float_quotients])
def test_ordinary_sums_and_averages_are_proven(rounded: Rounded) -> None:
    random = np.random.default_rng(1)
    limbs = [(random.integers(-(2**45), 2**45, 20_000), unit) for unit in (-64, -32, 0)]
    for counts in (None, random.integers(1, 1000, 20_000)):
        _, proven = rounded(limbs, counts)
        assert proven.mean() > 0.99
