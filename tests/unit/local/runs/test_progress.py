from __future__ import annotations

import pytest

from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.local.engine.job import Progress
from headrace.local.runs.progress import ProgressLine, count_text, watermark_text


def progress(rows_in: int, rows_out: int, *, late: int = 0) -> Progress:
    return Progress(rows_in, rows_out, late, 0, 7, TIME_MIN, 12)


def test_rates_are_over_the_last_lines() -> None:
    line = ProgressLine(started_s=100.0)

    first = line.text(progress(1000, 10), 101.0)
    last = ""
    for second in range(2, 20):
        last = line.text(progress(1000 * second, 10, late=3), 100.0 + second)

    assert first == "in 1.00 k rows/s (1.00 k) | out 10 rows/s (10) | lag 7 | watermark - | queued 12"
    assert last.startswith("in 1.00 k rows/s (19.0 k) | out 0 rows/s (10)")
    assert last.endswith("| late 3")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.00 k"),
        (12_345, "12.3 k"),
        (999_999, "1.00 M"),
        (123e6, "123 M"),
        (5e9, "5.00 G"),
    ],
)
def test_counts(count: float, text: str) -> None:
    assert count_text(count) == text


@pytest.mark.parametrize(
    ("watermark", "text"),
    [(TIME_MIN, "-"), (TIME_MAX, "end"), (0, "1970-01-01 00:00:00"), (1 << 60, str(1 << 60))],
)
def test_watermarks(watermark: int, text: str) -> None:
    assert watermark_text(watermark) == text
