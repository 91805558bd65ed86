"""Whether another one, who holds a lease, is silent for too long, by the observer's own clock. Pure.

The holder changes a value (a beat) again and again; an observer measures how long it has seen the same one. No clock is
compared with that of another host. Method: leader election of Kubernetes' client-go.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class LeaseWatch:
    """One observer's view of a lease. lease_ms: silence after which the lease has expired."""

    lease_ms: int
    _beat: bytes | None = None
    _since_ms: int | None = None

    def has_expired(self, beat: bytes | None, now_ms: int) -> bool:
        """Notes the beat that was read now (None: the lease has no beat yet). now_ms: of a monotonic clock."""
        if self._since_ms is None or beat != self._beat:
            self._beat, self._since_ms = beat, now_ms
        return now_ms - self._since_ms >= self.lease_ms
