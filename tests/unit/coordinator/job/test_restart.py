"""Restart strategies: when a job starts again, and when it is given up."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from headrace.coordinator.job.restart import JITTER, STABLE_MS, may_restart, open_strategy
from headrace.rpc.messages import Failure
from headrace.spec.settings import read_restart, restart_dict
from support.suite.properties import weighted

MIDDLE = 0.5
"""The random number that changes nothing."""


def test_delays_grow_up_to_the_longest() -> None:
    strategy = open_strategy(read_restart({"strategy": "exponential-delay", "initial": "1s", "max": "3s"}))
    assert [strategy.on_failure(0, MIDDLE) for _ in range(5)] == [1_000, 1_500, 2_250, 3_000, 3_000]


def test_a_stable_time_brings_back_the_first_delay() -> None:
    strategy = open_strategy(read_restart({}))
    assert strategy.on_failure(0, MIDDLE) == 1_000
    assert strategy.on_failure(2_000, MIDDLE) == 1_500
    strategy.on_stable(3_500 + STABLE_MS - 1)
    assert strategy.on_failure(3_500 + STABLE_MS - 1, MIDDLE) == 2_250
    late = 3_500 + 2 * STABLE_MS + 10_000
    strategy.on_stable(late)
    assert strategy.on_failure(late + 1, MIDDLE) == 1_000


def test_the_longest_delay_is_no_stable_time() -> None:
    strategy = open_strategy(read_restart({"strategy": "exponential-delay", "initial": "1h", "max": "2h"}))
    assert strategy.on_failure(0, MIDDLE) == 3_600_000
    assert strategy.on_failure(3_600_001, MIDDLE) == 5_400_000


@weighted(4)
@given(times=st.lists(st.integers(0, 100_000), min_size=1, max_size=30), jitter=st.floats(0, 1))
def test_delays_stay_near_their_bounds(times: list[int], jitter: float) -> None:
    strategy = open_strategy(read_restart({}))
    for now_ms in sorted(times):
        delay_ms = strategy.on_failure(now_ms, jitter)
        assert delay_ms is not None
        assert 1_000 * (1 - JITTER) <= delay_ms <= 60_000 * (1 + JITTER)


def test_a_fixed_number_of_attempts() -> None:
    strategy = open_strategy(read_restart({"strategy": "fixed-delay", "attempts": 2, "delay": "7s"}))
    strategy.on_stable(10**9)
    assert [strategy.on_failure(0, MIDDLE) for _ in range(4)] == [7_000, 7_000, None, None]


def test_a_rate_of_failures() -> None:
    strategy = open_strategy(read_restart({"strategy": "failure-rate", "failures": 2, "per": "10s"}))
    assert strategy.on_failure(0, MIDDLE) == 1_000
    assert strategy.on_failure(5_000, MIDDLE) == 1_000
    assert strategy.on_failure(10_001, MIDDLE) == 1_000, "the first one is long ago"
    assert strategy.on_failure(12_000, MIDDLE) is None


def test_none_gives_up_at_once() -> None:
    strategy = open_strategy(read_restart({"strategy": "none"}))
    strategy.on_stable(1)
    assert strategy.on_failure(0, MIDDLE) is None


@pytest.mark.parametrize(
    ("domain", "retry", "asked"),
    [("user", False, False), ("user", True, True), ("external", False, True), ("internal", False, True)],
)
def test_what_the_user_must_put_right_is_not_tried_again(domain: str, retry: bool, asked: bool) -> None:
    assert may_restart(Failure("text", domain, retry=retry)) is asked


@pytest.mark.parametrize("text", [2, "off"])
def test_poison_after_keeps_its_file_form(text: object) -> None:
    restart = read_restart({"poison_after": text})
    assert restart_dict(restart) == {"strategy": "exponential-delay", "poison_after": text}
