"""Whether a leader gives up because it has lost all its workers. Pure.

A leader may be cut off from workers and not from the election. It gives up once, in favour of a host that may reach
them. It does not if it never had a worker, or leaders would change for ever while there are none; nor if the last ones
have left or were released, for nobody reaches those; nor without a standby, which alone could reach more than it does.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class WorkerWatch:
    """One leader's view.

    limit_ms   how long there may be no worker after there were some
    notice_ms  how long a worker may be out of reach before it counts as lost
    """

    limit_ms: int
    notice_ms: int
    _lost_before: int | None = None
    """How many workers had been lost when some were connected last; None: none has been connected."""
    _since_ms: int | None = None
    _standby_ms: int | None = None

    def standby_seen(self, now_ms: int) -> None:
        """A standby has shown itself. now_ms: of a monotonic clock, as below."""
        self._standby_ms = now_ms

    def gives_up(self, connected: int, lost: int, now_ms: int) -> bool:
        """Notes how many workers are connected now. lost: how many have been lost in all, without those that left or
        were released."""
        if connected:
            self._lost_before, self._since_ms = lost, None
            return False
        if self._lost_before is None or lost == self._lost_before:
            return False
        if self._since_ms is None:
            self._since_ms = now_ms
        return now_ms - self._since_ms >= self.limit_ms and self._has_standby(self._since_ms)

    def _has_standby(self, since_ms: int) -> bool:
        """A leader that is cut off from its workers may be cut off from its standbys, too: one that showed itself
        shortly before counts."""
        before_ms = self.notice_ms + self.limit_ms
        return self._standby_ms is not None and self._standby_ms >= since_ms - before_ms
