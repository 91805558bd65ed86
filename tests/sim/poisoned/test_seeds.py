"""Some seeds with a row that crashes slots. `make sim` runs ten thousand."""

from __future__ import annotations

import pytest

from sim.poisoned.run import play

SEEDS = 50
AT_ONCE = 50


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_the_job_ends_for_the_row_and_for_no_kill(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        play(seed)
