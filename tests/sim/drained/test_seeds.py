"""Some seeds with workers that are drained. `make sim` runs ten thousand."""

from __future__ import annotations

import pytest

from sim.drained.run import play

SEEDS = 50
AT_ONCE = 50


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_whatever_fails_the_job_ends_as_it_should(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        play(seed)
