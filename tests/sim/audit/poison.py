"""Watches the end of jobs that a row crashes: it comes in time, and no kill from outside brings it about.

Counts per coordinator, as the product does: one that takes over begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from headrace.coordinator.job.restart import STABLE_MS
from headrace.rpc.messages import Failure
from sim.world import ViolationError, World

_REPEATED = "the same failure"
"""How the error of a job begins that was ended for it."""
CRASH = "killed by SIGSEGV"
"""How a slot ends that reads the row."""
_OUTAGES = ("is lost", "a peer is gone", "fenced", "a file is missing")
"""What slots that somebody kills, and those beside them, report."""
Positions = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Poison:
    """A row at which each slot crashes that reads it."""

    partition: int
    position: int


@dataclass(frozen=True, slots=True)
class _Crash:
    """An attempt that crashed, and where it had begun."""

    attempt: int
    epoch: int | None
    positions: Positions
    at_ms: int


class PoisonAuditor:
    """after: so many crashes without progress end the job; None: none do."""

    def __init__(self, world: World, after: int | None) -> None:
        self._world = world
        self._after = after
        self._crashes: dict[str, list[_Crash]] = {}
        self._begun: dict[int, tuple[int | None, Positions]] = {}
        self._positions: Positions = {}
        self._stable_ms = 0
        """When a checkpoint came so late after a failure that it counts although nothing moved."""

    def began(self, attempt: int, epoch: int | None, positions: Positions) -> None:
        """An attempt is recorded, with the epoch that it restores."""
        self._begun[attempt] = epoch, positions

    def completed(self, positions: Positions) -> None:
        """A checkpoint is recorded."""
        now_ms = self._world.now_ms
        crashed_ms = max((each[-1].at_ms for each in self._crashes.values() if each), default=now_ms)
        if now_ms - crashed_ms >= STABLE_MS:
            self._stable_ms = now_ms
        self._positions = positions

    def failed(self, coordinator: str, attempt: int, failure: Failure) -> None:
        """A coordinator has handled the failure of a slot."""
        crashes = self._crashes.setdefault(coordinator, [])
        # what nobody foresaw is a failure of another kind, which has a count of its own
        if CRASH in failure.message and all(attempt != each.attempt for each in crashes):
            begun = self._begun.get(attempt, (None, {}))
            crashes.append(_Crash(attempt, *begun, self._world.now_ms))

    def deployed(self, coordinator: str, attempt: int) -> None:
        """A coordinator deploys another attempt. Crashes count that began where it begins, too."""
        repeated = [
            each.attempt
            for each in self._crashes.get(coordinator, [])
            if each.positions == self._positions and each.at_ms > self._stable_ms and each.attempt != attempt
        ]
        if self._after is not None and len(repeated) >= self._after:
            raise ViolationError(f"attempt {attempt} begins after {len(repeated)} crashes without progress")

    def ended(self, coordinator: str, error: str) -> None:
        """The job is over, by the record of a coordinator."""
        if self._after is None or not error.startswith(_REPEATED):
            return
        if any(outage in error for outage in _OUTAGES):
            raise ViolationError(f"an outage has ended the job: {error}")
        if CRASH not in error:
            return
        last = self._crashes.get(coordinator, [])[-self._after :]
        if len(last) < self._after:
            raise ViolationError(f"{len(last)} crashes have ended the job, not {self._after}: {error}")
        for before, now in pairwise(last[1:]):
            if (before.epoch or 0) < (now.epoch or 0) and _read(before) != _read(now):
                raise ViolationError(f"the job was ended though it moved on from {before.positions} to {now.positions}")


def _read(crash: _Crash) -> Positions:
    """Partition -> rows that were read before; without those of which none was."""
    return {partition: position for partition, position in crash.positions.items() if position}
