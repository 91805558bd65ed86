"""The configuration of a cluster that makes its own workers."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.errors import UserError


@dataclass(frozen=True, slots=True)
class ProvisioningConfig:
    """The size of a cluster that makes its own workers.

    slots        slots of each worker
    workers_min  workers that stay although no job needs them
    workers_max  more are never made; a job that needs more waits
    idle_ms      a worker that no job has needed for this long is released
    join_ms      a worker whose process has run for this long without having joined is replaced
    """

    slots: int
    workers_min: int = 0
    workers_max: int = 100
    idle_ms: int = 60_000
    join_ms: int = 180_000

    def __post_init__(self) -> None:
        if not 1 <= self.slots <= 256:
            raise UserError(f"a worker of {self.slots} slots", remedy="give it 1 to 256")
        if not 0 <= self.workers_min <= self.workers_max or self.workers_max < 1:
            raise UserError(
                f"at least {self.workers_min} and at most {self.workers_max} workers do not fit together",
                remedy="the largest number is 1 or more, and not below the smallest",
            )

    @property
    def slots_max(self) -> int:
        """The slots of a cluster of `workers_max` workers."""
        return self.slots * self.workers_max
