"""A moment as text for people."""

from __future__ import annotations

from datetime import UTC, datetime


def moment_text(ms: int) -> str:
    """Epoch ms as `2024-05-01 08:00:00`, in UTC; the number itself where no calendar has it."""
    try:
        return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{ms:,} ms since 1970"
