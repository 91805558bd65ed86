"""Texts of figures: rates, counts, durations, sizes and times. `NONE` stands for a figure that is not known. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

NONE = "–"  # noqa: RUF001
"""An en dash."""
_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_BYTES = ((1024**4, "TB"), (1024**3, "GB"), (1024**2, "MB"), (1024, "kB"))
_SPANS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


def rate_text(per_s: float) -> str:
    """Rows a second with at most three digits: `0`, `0.4`, `812`, `1.2 k`, `45 k`."""
    for unit, name in _UNITS:
        if per_s >= unit * 0.9995:
            return f"{_three_digits(per_s / unit)} {name}"
    return _three_digits(per_s)


def count_text(count: int | None) -> str:
    """A number with separators: `1,234,567`."""
    return NONE if count is None else f"{count:,}"


def bytes_text(size: int | None) -> str:
    """A size: `812 B`, `3.4 kB`, `12 MB`."""
    if size is None:
        return NONE
    for unit, name in _BYTES:
        if size >= unit:
            return f"{_three_digits(size / unit)} {name}"
    return f"{size} B"


def duration_text(ms: int | None) -> str:
    """A duration with at most two units: `850 ms`, `12.3 s`, `3 min 20 s`, `2 h 5 min`."""
    if ms is None:
        return NONE
    if ms < 0:
        return f"-{duration_text(-ms)}"
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{_three_digits(ms / 1_000)} s"
    seconds = ms // 1_000
    for large, large_name, small, small_name in _SPANS:
        if seconds >= large:
            rest = seconds % large // small
            return f"{seconds // large:,} {large_name}" + (f" {rest} {small_name}" if rest else "")
    return f"{seconds} s"


def percent_text(ratio: float) -> str:
    """A ratio as a percentage: `31 %`."""
    return f"{ratio:.0%}".replace("%", " %")


def time_text(time: datetime | None) -> str:
    """A time in UTC: `2026-01-31 09:30:00`."""
    return NONE if time is None else time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def event_time_text(ms: int | None) -> str:
    """Event time (epoch ms) in UTC; a time that no calendar has is not known."""
    try:
        return NONE if ms is None else time_text(datetime.fromtimestamp(ms / 1000, UTC))
    except (OverflowError, ValueError, OSError):
        return NONE


def shortened(text: str, length: int) -> str:
    """The text with its middle left out, if it is longer than `length`: its end tells names apart."""
    if len(text) <= length:
        return text
    head = (length - 1) // 2
    return f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"


def _three_digits(value: float) -> str:
    if value >= 99.95 or value == 0:
        return f"{value:.0f}"
    text = f"{value:.1f}"
    return text.removesuffix(".0")
