"""Times as the API server writes them: UTC, whole seconds. Pure."""

from __future__ import annotations

from datetime import UTC, datetime


def time_text(seconds: float) -> str:
    """Seconds since the epoch as text: `2026-01-31T09:30:00Z`."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def epoch_seconds(text: str) -> float:
    """Inverse of `time_text`; fractions of seconds are read, too. Raises ValueError."""
    return datetime.fromisoformat(text).timestamp()


def seconds_between(before: str, after: str) -> float:
    """Seconds from one time to another."""
    return epoch_seconds(after) - epoch_seconds(before)
