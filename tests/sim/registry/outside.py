"""What outlives every coordinator beside the job store: each job's own storage, with its journal's last record."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.coordinator.job_registry.events import End


@dataclass(slots=True)
class JobOutside:
    """A job's storage.

    finished   the journal's end; drivers find it
    duplicate  its user allowed a duplicate of its name
    once       its master is replaced by no other one
    """

    job: str
    name: str
    duplicate: bool
    once: bool
    finished: End | None = None
    away_until_ms: int = 0
    hangs_until_ms: int = 0
    hopeless_until_ms: int = 0

    @property
    def healthy_from_ms(self) -> int:
        """Since when it answers as it should."""
        return max(self.away_until_ms, self.hangs_until_ms, self.hopeless_until_ms)

    def is_reachable(self, now_ms: int) -> bool:
        """Whether its journal can be written."""
        return now_ms >= max(self.away_until_ms, self.hangs_until_ms)
