"""What is broken is found: with one rule broken, some seed must fail.

The commit tier breaks a third of the rules, and the next commit another third.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sim.seeds import Play

TURNS = 3
Breaks = Callable[[pytest.MonkeyPatch], None]
"""Breaks one rule of what is simulated."""


def each_of(breaks: list[tuple[Breaks, int]]) -> pytest.MarkDecorator:
    """A test's parameters `breaks` and `first`, named after what is broken."""
    parameters = [pytest.param(*each, marks=pytest.mark.turns(TURNS)) for each in breaks]
    return pytest.mark.parametrize(
        ("breaks", "first"), parameters, ids=lambda value: getattr(value, "__name__", "").strip("_")
    )


def require_found(play: Play, first: int, seeds_max: int) -> None:
    """Raises AssertionError where each of so many seeds comes to a good end."""
    with pytest.raises(AssertionError):
        for seed in range(first, first + seeds_max):
            play(seed)
