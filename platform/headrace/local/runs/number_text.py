"""Counts and watermarks as short text. Pure, and imports nothing of the engine: `headrace status` starts fast."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headrace.core.signals import TIME_MAX, TIME_MIN

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
