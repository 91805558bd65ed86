"""Whether a leader has lost all its workers. Pure.

A leader may be cut off from workers and not from the election. It gives up once, in favour of a host that may reach
them; a leader that never had a worker does not, or leaders would change for ever while there are none.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class WorkerWatch:
    """One leader's view. limit_ms: how long there may be no worker after there were some."""

    limit_ms: int
    _had_some: bool = False
    _since_ms: int | None = None

    def has_lost_all(self, workers: int, now_ms: int) -> bool:
        """Notes how many workers are connected now. now_ms: of a monotonic clock."""
        if workers:
            self._had_some, self._since_ms = True, None
            return False
        if not self._had_some:
            return False
        if self._since_ms is None:
            self._since_ms = now_ms
        return now_ms - self._since_ms >= self.limit_ms
