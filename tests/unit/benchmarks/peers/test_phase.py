"""Rates by the slope between two runs."""

from __future__ import annotations

import pytest
from peers.phase import Measured, NoSlopeError, Phase


def measured(small_s: float, large_s: float) -> Measured:
    small = Phase(rows=100, cpu_s=small_s, wall_s=small_s / 2)
    large = Phase(rows=1_100, cpu_s=large_s, wall_s=large_s / 2)
    return Measured(small=small, large=large, fresh=Phase(rows=1_100, cpu_s=11.0, wall_s=1.0))


def test_a_slope_leaves_out_what_both_runs_have() -> None:
    found = measured(3.0, 5.0)
    assert found.steady_rows_per_cpu_s == 500
    assert found.steady_rows_per_s == 1_000


def test_a_fresh_run_has_everything() -> None:
    assert measured(3.0, 5.0).fresh_rows_per_cpu_s == 100


@pytest.mark.parametrize("large_s", [3.0, 2.5])
def test_noise_larger_than_the_difference_is_no_rate(large_s: float) -> None:
    with pytest.raises(NoSlopeError, match="more rows"):
        _ = measured(3.0, large_s).steady_rows_per_cpu_s
