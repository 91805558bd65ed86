"""Texts of figures."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.ui.views.formats import (
    NONE,
    bytes_text,
    count_text,
    duration_text,
    event_time_text,
    percent_text,
    rate_text,
    shortened,
    time_text,
)


@pytest.mark.parametrize(
    ("per_s", "text"),
    [
        (0, "0"),
        (0.4, "0.4"),
        (99.96, "100"),
        (812, "812"),
        (999.6, "1 k"),
        (1_200, "1.2 k"),
        (45_300, "45.3 k"),
        (2e6, "2 M"),
    ],
)
def test_rates(per_s: float, text: str) -> None:
    assert rate_text(per_s) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, NONE), (0, "0 ms"), (850, "850 ms"), (12_300, "12.3 s"), (60_000, "1 min"), (200_000, "3 min 20 s"),
        (7_500_000, "2 h 5 min"), (90_000_000, "1 d 1 h"), (438_566_400_000, "5,076 d"), (-5_000, "-5 s"),
    ],
)  # fmt: skip
def test_durations(ms: int | None, text: str) -> None:
    assert duration_text(ms) == text


def test_sizes_counts_ratios_and_times() -> None:
    assert [bytes_text(size) for size in (None, 812, 3_482, 12 * 1024**2)] == [NONE, "812 B", "3.4 kB", "12 MB"]
    assert [count_text(count) for count in (None, 1_234_567)] == [NONE, "1,234,567"]
    assert percent_text(0.314) == "31 %"
    assert [time_text(None), time_text(datetime(2026, 1, 31, 9, 30, tzinfo=UTC))] == [NONE, "2026-01-31 09:30:00"]
    assert [event_time_text(ms) for ms in (None, 0, 2**62)] == [NONE, "1970-01-01 00:00:00", NONE]


@given(st.text(max_size=40), st.integers(3, 20))
def test_a_shortened_text_keeps_its_ends(text: str, length: int) -> None:
    short = shortened(text, length)
    assert len(short) <= length
    if len(text) > length:
        head, _, tail = short.partition("…") if "…" not in text else (short[: (length - 1) // 2], "", "")
        assert text.startswith(head)
        assert text.endswith(tail)
    else:
        assert short == text
