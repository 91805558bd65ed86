"""Backoff and retries: pauses between tries, and bounds in time and number."""

from __future__ import annotations

import pytest

from headrace.core import retry
from headrace.core.errors import ExternalError
from headrace.core.retry import Backoff, Retries
from support.stepped_clock import SteppedClock

BACKOFF = Backoff(first_s=1.0, max_s=4.0)


class SleepingClock(SteppedClock):
    """Sleeping takes the time it should."""

    def __init__(self) -> None:
        super().__init__()
        self.slept_s: list[float] = []

    def sleep(self, seconds: float) -> None:
        """Time goes on."""
        self.slept_s.append(seconds)
        self.step_ms(round(seconds * 1_000))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SleepingClock:
    clock = SleepingClock()
    monkeypatch.setattr(retry, "time", clock)
    return clock


def pauses(backoff: Backoff, count: int) -> list[float]:
    found = [backoff.next_s()]
    for _ in range(count - 1):
        found.append(backoff.next_s(found[-1]))
    return found


def test_pauses_grow_up_to_the_longest() -> None:
    assert pauses(Backoff(0.5, 3.0), 5) == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert pauses(Backoff(1.0, 2.0, growth=1.5), 4) == [1.0, 1.5, 2.0, 2.0]


def test_pauses_of_equal_bounds_stay_the_same() -> None:
    assert pauses(Backoff(0.5, 0.5), 3) == [0.5, 0.5, 0.5]


def test_jitter_makes_a_pause_longer_by_the_share_that_is_drawn() -> None:
    backoff = Backoff(1.0, 4.0, jitter=0.5)
    assert [backoff.jittered_s(2.0, drawn) for drawn in (0.0, 0.5, 1.0)] == [2.0, 2.5, 3.0]


def test_the_last_pause_may_end_after_the_patience(clock: SleepingClock) -> None:
    retries = Retries(BACKOFF, 6.0)
    assert [retries.pause() for _ in range(4)] == [True, True, True, False]
    assert clock.slept_s == [1.0, 2.0, 4.0]
    assert retries.failures == 4


def test_without_overruns_the_last_try_begins_within_the_patience(clock: SleepingClock) -> None:
    retries = Retries(BACKOFF, 6.0, overruns=False)
    assert [retries.pause() for _ in range(3)] == [True, True, False]
    assert clock.slept_s == [1.0, 2.0]


def test_tries_are_counted_and_jitter_is_drawn(clock: SleepingClock) -> None:
    retries = Retries(Backoff(1.0, 4.0, jitter=1.0), tries_max=3, draw=lambda: 0.5)
    assert [retries.pause() for _ in range(3)] == [True, True, False]
    assert clock.slept_s == [1.5, 3.0], "the pause grows without its jitter"


def test_without_bounds_it_goes_on(clock: SleepingClock) -> None:
    retries = Retries(BACKOFF)
    assert all(retries.pause() for _ in range(100))


def test_an_error_that_may_pass_is_raised_when_patience_is_over(clock: SleepingClock) -> None:
    retries = Retries(BACKOFF, 1.0)
    error = ExternalError("away", retry=True)
    retries.pause_or_raise(error)
    with pytest.raises(ExternalError, match="away"):
        retries.pause_or_raise(error)
    assert clock.slept_s == [1.0]


def test_an_error_that_does_not_pass_is_raised_at_once(clock: SleepingClock) -> None:
    with pytest.raises(ExternalError, match="denied"):
        Retries(BACKOFF, 10.0).pause_or_raise(ExternalError("denied"))
    assert clock.slept_s == []
