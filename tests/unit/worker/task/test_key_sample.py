"""The sample of keys: heavy ones are found, and neither time nor memory grows with the input."""

from __future__ import annotations

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given

from headrace.core.clock import Clock, SystemClock
from headrace.core.keygroups import key_groups
from headrace.rpc.figures import HEAVY_MAX
from headrace.worker.task.key_sample import HORIZON_ROWS, INTERVAL_MS, KEYS_MAX, ROWS_MAX, KeySample

GROUPS = 128


class Stepped(SystemClock):
    """Goes on when the test says so."""

    def __init__(self) -> None:
        self._now_ms = 1_000

    def monotonic_ms(self) -> int:
        return self._now_ms

    def advance(self, ms: int) -> None:
        self._now_ms += ms


def sample(clock: Clock) -> KeySample:
    return KeySample("t", [("k",)], GROUPS, clock)


def test_the_share_of_a_heavy_key_and_of_its_group() -> None:
    clock = Stepped()
    keys = sample(clock)
    for batch in range(20):
        keys.add(pl.DataFrame({"k": ["big" if n % 4 else f"k{batch}-{n}" for n in range(2_000)], "v": 1}))
        clock.advance(INTERVAL_MS)
    found = keys.figures
    group = int(key_groups(pl.DataFrame({"k": ["big"]}), ["k"], GROUPS)[0])
    assert (found.keys[0].key, found.keys[0].group, found.groups[0].group) == ("big", group, group)
    assert found.keys[0].rows / found.rows == pytest.approx(0.75, abs=0.02)
    assert found.groups[0].rows / found.rows >= 0.73
    assert len(found.keys) <= HEAVY_MAX and found.columns == ("k",)


def test_one_batch_of_an_interval_is_sampled() -> None:
    clock = Stepped()
    keys = sample(clock)
    keys.add(pl.DataFrame({"k": [1] * 10}))
    keys.add(pl.DataFrame({"k": [2] * 10}))
    assert [each.key for each in keys.figures.keys] == ["1"]
    clock.advance(INTERVAL_MS)
    keys.add(pl.DataFrame({"k": [2] * 10}))
    assert {each.key for each in keys.figures.keys} == {"1", "2"}


@given(st.lists(st.integers(1, 50_000), min_size=1, max_size=60))
def test_the_sample_is_bounded(heights: list[int]) -> None:
    clock = Stepped()
    keys = sample(clock)
    for number, height in enumerate(heights):
        keys.add(pl.DataFrame({"k": pl.int_range(number * 100_000, number * 100_000 + height, eager=True)}))
        clock.advance(INTERVAL_MS)
    assert keys.figures.rows <= HORIZON_ROWS + ROWS_MAX
    assert len(keys._counts) == len(keys._group_of) <= KEYS_MAX


def test_a_key_that_has_gone_leaves_the_sample() -> None:
    clock = Stepped()
    keys = sample(clock)
    for name in ("old", "new"):
        for _ in range(4 * HORIZON_ROWS // ROWS_MAX):
            keys.add(pl.DataFrame({"k": [name] * ROWS_MAX}))
            clock.advance(INTERVAL_MS)
    shares = {each.key: each.rows / keys.figures.rows for each in keys.figures.keys}
    assert shares["new"] > 0.9


def test_null_and_long_keys_have_a_text() -> None:
    keys = KeySample("t", [("a", "b")], GROUPS, Stepped())
    keys.add(pl.DataFrame({"a": [None, "x" * 500], "b": [1, None]}, schema={"a": pl.String, "b": pl.Int64}))
    texts = {each.key for each in keys.figures.keys}
    assert "NULL, 1" in texts and max(len(each) for each in texts) == 60
