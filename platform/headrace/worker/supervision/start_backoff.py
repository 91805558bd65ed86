"""When a slot is replaced: at once, or after a growing delay if slots die as soon as they start. Pure."""

from __future__ import annotations

from headrace.core.retry import Backoff

BACKOFF = Backoff(first_s=0.2, max_s=10.0)
SOON_SECONDS = 10.0
"""The death of a slot that lived longer than this is not a failed start."""


class StartBackoff:
    """The time from which the next slot may start. Times in seconds of any monotonic clock."""

    def __init__(self) -> None:
        self._wait_s = 0.0
        self._from_s = 0.0

    def may_start(self, now_s: float) -> bool:
        """Whether a slot may be started now."""
        return now_s >= self._from_s

    def ended(self, now_s: float, lived_s: float, *, healthy: bool) -> None:
        """Notes the end of a slot. healthy: it had begun an attempt, or left on command."""
        if healthy or lived_s > SOON_SECONDS:
            self._wait_s = self._from_s = 0.0
        else:
            self._wait_s = BACKOFF.next_s(self._wait_s)
            self._from_s = now_s + self._wait_s
