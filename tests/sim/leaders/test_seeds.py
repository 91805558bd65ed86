"""Some seeds of the leaders' simulation. `make sim` runs ten thousand."""

from __future__ import annotations

import pytest

from sim.leaders.run import play

SEEDS = 100
AT_ONCE = 50


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_whatever_fails_what_was_answered_is_kept(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        play(seed)


def test_a_seed_tells_the_same_story_again() -> None:
    assert play(7) == play(7)
