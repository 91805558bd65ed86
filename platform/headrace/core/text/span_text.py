"""Spans of time and moments as text for people; `core.config.duration_text` writes the spans of settings."""

from __future__ import annotations

from datetime import UTC, datetime


def span_text(ms: int) -> str:
    """`850 ms`, `12.3 s`, `5 min 3 s`, `2 h 10 min`, `3 d 4 h`; a negative one has a sign."""
    if ms < 0:
        return f"-{span_text(-ms)}"
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1_000:.1f} s"
    seconds = ms // 1_000
    for size, name, part, below in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            return f"{seconds // size:,} {name} {seconds % size // part} {below}"
    raise AssertionError("a minute is the smallest of them")


def moment_text(ms: int) -> str:
    """Epoch ms as `2024-05-01 08:00:00`, in UTC; the number itself where no calendar has it."""
    try:
        return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{ms:,} ms since 1970"
