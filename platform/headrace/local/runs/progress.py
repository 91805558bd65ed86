"""Formats the progress of a job as one line of text. Pure: progress and time in, text out."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, timedelta

from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.local.engine.job import Progress

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RATE_SAMPLES = 6


class ProgressLine:
    """Formats the progress of one job; rates are averages over the last few lines."""

    def __init__(self, started_s: float) -> None:
        self._samples: deque[tuple[float, int, int]] = deque([(started_s, 0, 0)], maxlen=_RATE_SAMPLES)

    def text(self, progress: Progress, now_s: float) -> str:
        """`in 1.20 M rows/s (5.00 M) | out .. | lag .. | watermark 2013-01-01 05:00:00 | queued ..`."""
        then_s, rows_in, rows_out = self._samples[0]
        self._samples.append((now_s, progress.rows_in, progress.rows_out))
        seconds = max(now_s - then_s, 1e-9)
        parts = [
            f"in {count_text((progress.rows_in - rows_in) / seconds)} rows/s ({count_text(progress.rows_in)})",
            f"out {count_text((progress.rows_out - rows_out) / seconds)} rows/s ({count_text(progress.rows_out)})",
            f"lag {count_text(progress.lag)}",
            f"watermark {watermark_text(progress.watermark)}",
            f"queued {count_text(progress.rows_queued)}",
        ]
        parts += [f"late {count_text(progress.late)}"] if progress.late else []
        parts += [f"bad {count_text(progress.bad)}"] if progress.bad else []
        parts += [f"waiting for {', '.join(progress.waiting_for)}"] if progress.waiting_for else []
        parts += [progress.doing] if progress.doing else []
        return " | ".join(parts)


def count_text(count: float) -> str:
    """`950`, `12.3 k`, `1.20 M`, `3.40 G`."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size * 0.9995:
            value = count / size
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"
    return f"{count:.0f}"


def watermark_text(watermark: int) -> str:
    """Epoch ms as a UTC time; `-` before the first row, `end` after the last."""
    if watermark == TIME_MIN:
        return "-"
    if watermark == TIME_MAX:
        return "end"
    try:
        return f"{_EPOCH + timedelta(milliseconds=watermark):%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        return str(watermark)
