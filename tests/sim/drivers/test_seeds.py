"""Some seeds of the drivers' simulation, and those that once found something. `make sim` runs ten thousand."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.drivers.run import play
from support.repository import ROOT

SEEDS = 300
AT_ONCE = 100
CASES = sorted((ROOT / "tests" / "sim" / "drivers" / "cases").glob("*.txt"))


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_whatever_fails_the_command_ends_as_it_should(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        play(seed)


@pytest.mark.parametrize("case", [pytest.param(path, id=path.stem) for path in CASES])
def test_what_was_found_once_is_found_no_more(case: Path) -> None:
    head = case.read_text().splitlines()[0]
    play(int(head.removeprefix("seed ")))


def test_a_seed_tells_the_same_story_again() -> None:
    assert play(7) == play(7)
