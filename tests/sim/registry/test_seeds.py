"""Some seeds of the registry's simulation. `make sim` runs ten thousand."""

from __future__ import annotations

import pytest

from sim.registry.run import play

SEEDS = 200
AT_ONCE = 100


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_whatever_fails_every_job_has_one_owner_or_an_end(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        play(seed)


def test_a_seed_tells_the_same_story_again() -> None:
    assert play(7) == play(7)
