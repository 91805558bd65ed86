"""Growth of states: steady growth has its rate, what goes up and down has none, and what fills up does not last."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.coordinator.figures.job_figures import JobFigures
from headrace.coordinator.figures.state_growth import (
    BEGIN_MS,
    HOUR_MS,
    KNOWN_MS,
    SAMPLES_MAX,
    STEADY_MS,
    StateGrowth,
)
from headrace.rpc.figures import NodeStateFigures, SlotFigures
from headrace.rpc.status import SlotStatus

OWNER = ("totals", "groups")


def grown(size: Callable[[int], float], until_ms: int, every_ms: int = 1_000) -> StateGrowth:
    """The growth of a state with so many bytes at each time, in two slots."""
    growth = StateGrowth()
    for at_ms in range(0, until_ms + 1, every_ms):
        figures = JobFigures()
        memory, disk = (
            NodeStateFigures(node=OWNER[0], state=OWNER[1], **{place: round(size(at_ms) / 2)})
            for place in ("memory_bytes", "disk_bytes")
        )
        figures.take(0, SlotStatus(figures=SlotFigures(at_ms=at_ms, states=(memory,))))
        figures.take(1, SlotStatus(figures=SlotFigures(at_ms=at_ms, states=(disk,))))
        growth.look(figures)
    return growth


@given(rate=st.integers(1_000, 10**9), begin=st.integers(0, 10**10), minutes=st.integers(2, 150))
def test_steady_growth_is_its_rate(rate: int, begin: int, minutes: int) -> None:
    growth = grown(lambda at_ms: begin + rate * at_ms / HOUR_MS, minutes * 60_000, 5_000)
    # sizes of both places are whole bytes: two of them in half a minute are 240 an hour
    assert growth.per_hour(OWNER) == pytest.approx(rate, rel=0.12, abs=300)
    assert growth.lasts(OWNER) == (minutes * 60_000 - BEGIN_MS >= STEADY_MS)


def test_growth_is_not_known_at_the_beginning() -> None:
    assert grown(lambda at_ms: at_ms, 0).per_hour(OWNER) is None
    assert grown(lambda at_ms: at_ms, KNOWN_MS).per_hour(OWNER) is None
    assert grown(lambda at_ms: at_ms, KNOWN_MS + 2 * BEGIN_MS).per_hour(OWNER) is not None


def test_what_goes_up_and_down_does_not_grow() -> None:
    growth = grown(lambda at_ms: 10**6 + at_ms % 60_000 * 1_000, 30 * 60_000)
    assert growth.per_hour(OWNER) == 0
    assert not growth.lasts(OWNER)


def test_what_fills_up_does_not_last() -> None:
    growth = grown(lambda at_ms: 10**9 * (1 - 0.5 ** (at_ms / 120_000)), 20 * 60_000)
    assert (growth.per_hour(OWNER) or 0) > 0
    assert not growth.lasts(OWNER)


def test_growth_is_that_of_the_last_hour() -> None:
    growth = grown(lambda at_ms: min(at_ms, HOUR_MS) * 1_000, 3 * HOUR_MS, 10_000)
    assert growth.per_hour(OWNER) == 0


def test_a_state_that_becomes_less_has_less_than_no_growth() -> None:
    assert (grown(lambda at_ms: 10**9 - at_ms * 100, 20 * 60_000).per_hour(OWNER) or 0) < 0


def test_a_state_that_nobody_has_does_not_grow() -> None:
    growth = grown(lambda at_ms: at_ms, 20 * 60_000)
    assert growth.per_hour(("other", "groups")) == 0
    assert not growth.lasts(("other", "groups"))


def test_samples_are_bounded() -> None:
    growth = grown(lambda at_ms: at_ms, 5 * HOUR_MS, 10_000)
    assert len(growth._samples) <= SAMPLES_MAX
