"""Durations and sizes in `headrace status`."""

from __future__ import annotations

import pytest

from headrace.cli.jobs.status_text import bytes_text
from headrace.core.text.span_text import span_text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (59_940, "59.9 s"),
        (60_000, "1 min 0 s"),
        (303_400, "5 min 3 s"),
        (7_800_000, "2 h 10 min"),
        (360_000_000, "4 d 4 h"),
        (-1_500, "-1.5 s"),
    ],
)
def test_spans(ms: int, text: str) -> None:
    assert span_text(ms) == text


@pytest.mark.parametrize(("size", "text"), [(None, "-"), (0, "0 B"), (12_345, "12.3 kB"), (5_000_000, "5.00 MB")])
def test_sizes(size: int | None, text: str) -> None:
    assert bytes_text(size) == text
