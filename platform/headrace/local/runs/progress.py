"""Counts, watermarks and the progress of a job as short text. Pure.

It imports nothing of the engine, so that `headrace status` starts fast.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.core.text.plural import count_text

if TYPE_CHECKING:
    from headrace.local.engine.job import Progress

WINDOW_MS = 10_000
"""The time that a rate in the line covers; less at the beginning of an attempt."""
SAMPLES_MAX = 64
"""Most earlier lines that rates are computed from."""
_BEGIN = (0, 0, 0)


class ProgressLine:
    """Formats the progress of one job. Rates are those of the last `WINDOW_MS` of the attempt that runs: they contain
    neither rows of earlier attempts nor the time of starting.
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[int, int, int]] = deque([_BEGIN], maxlen=SAMPLES_MAX)

    def text(self, progress: Progress) -> str:
        """`in 1.20 M rows/s (5.00 M) | out .. | lag .. | watermark 2013-01-01 05:00:00 | queued ..`."""
        rate_in, rate_out = self._rates(progress)
        parts = [
            f"in {count_text(rate_in)} rows/s ({count_text(progress.rows_in)})",
            f"out {count_text(rate_out)} rows/s ({count_text(progress.rows_out)})",
            f"lag {count_text(progress.lag)}",
            f"watermark {watermark_text(progress.watermark)}",
            f"queued {count_text(progress.rows_queued)}",
        ]
        parts += [f"late {count_text(progress.late)}"] if progress.late else []
        parts += [f"bad {count_text(progress.bad)}"] if progress.bad else []
        parts += [f"waiting for {', '.join(progress.waiting_for)}"] if progress.waiting_for else []
        # steps mostly wait for the same: one is enough in a line
        parts += [f"waiting: {each.node} for {each.on}" for each in progress.waiting[:1]]
        parts += [progress.doing] if progress.doing else []
        return " | ".join(parts)

    def _rates(self, progress: Progress) -> tuple[float, float]:
        now = (progress.running_ms, progress.attempt_in, progress.attempt_out)
        if now[0] < self._samples[-1][0]:
            # another attempt has begun
            self._samples.clear()
            self._samples.append(_BEGIN)
        if now[0] > self._samples[-1][0]:
            self._samples.append(now)
        while len(self._samples) > 2 and self._samples[1][0] <= now[0] - WINDOW_MS:
            self._samples.popleft()
        (then_ms, then_in, then_out), (now_ms, now_in, now_out) = self._samples[0], self._samples[-1]
        seconds = max(now_ms - then_ms, 1) / 1000
        return (now_in - then_in) / seconds, (now_out - then_out) / seconds


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
