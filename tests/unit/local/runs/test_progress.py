from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.coordinator.figures.standing_time import Waiting
from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.core.text.plural import count_text
from headrace.local.engine.job import Progress
from headrace.local.runs.progress import SAMPLES_MAX, ProgressLine, watermark_text


def progress(running_ms: int, rows_in: int, rows_out: int, *, late: int = 0, earlier: int = 0) -> Progress:
    """`earlier`: rows that earlier attempts have read."""
    return Progress(
        earlier + rows_in,
        rows_out,
        late,
        0,
        7,
        TIME_MIN,
        12,
        running_ms=running_ms,
        attempt_in=rows_in,
        attempt_out=rows_out,
    )


def test_rates_are_those_of_the_last_seconds() -> None:
    line = ProgressLine()

    first = line.text(progress(1000, 1000, 10))
    last = ""
    for second in range(2, 20):
        last = line.text(progress(1000 * second, 1000 * second, 10, late=3))

    assert first == "in 1.00 k rows/s (1.00 k) | out 10 rows/s (10) | lag 7 | watermark - | queued 12"
    assert last.startswith("in 1.00 k rows/s (19.0 k) | out 0 rows/s (10)")
    assert last.endswith("| late 3")


def test_rows_of_an_earlier_run_are_no_rate() -> None:
    line = ProgressLine()

    lines = [line.text(progress(500 * n, 0, 0, earlier=70_000)) for n in range(60)]

    assert {text.split(" | ")[0] for text in lines} == {"in 0 rows/s (70.0 k)"}


def test_time_that_stands_still_has_its_reason_in_the_line() -> None:
    waiting = tuple(
        Waiting(node, "the next row of source s", "", since_ms=0, next_end=0, source="s") for node in ("a", "b")
    )
    text = ProgressLine().text(replace(progress(1000, 1, 1), waiting=waiting))
    assert text.endswith("| queued 12 | waiting: a for the next row of source s")


def test_another_attempt_begins_anew() -> None:
    line = ProgressLine()
    for second in range(1, 5):
        line.text(progress(1000 * second, 1000 * second, 0))

    assert line.text(progress(0, 0, 0, earlier=4000)).startswith("in 0 rows/s (4.00 k)")
    assert line.text(progress(500, 50, 0, earlier=4000)).startswith("in 100 rows/s (4.05 k)")


def test_many_lines_keep_few_samples() -> None:
    line = ProgressLine()
    for n in range(10 * SAMPLES_MAX):
        text = line.text(progress(10 * n, n, 0))

    assert text.startswith("in 100 rows/s")


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
