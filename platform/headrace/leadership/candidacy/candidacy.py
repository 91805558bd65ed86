"""Decisions that follow from an election: of a coordinator, of observers of a lease, and of workers. Pure.

                Elected: lead                InDoubt: hold
    WAITING ──────────────────> LEADING <────────────────────> HOLDING
       │                           │         Elected: resume      │
       │ Lost, StorageLost         │ Lost, Replaced,              │ the same
       │                           │ StorageLost, WorkersLost     │
       └────────> OVER <───────────┴──────────────────────────────┘

In HOLDING a coordinator refuses every request that changes state. Its jobs continue, because a job's journal
(`checkpoint.journal`) admits one coordinator, whatever the election reports (decision 27). In OVER the coordinator
suspends its jobs and starts again as a standby.

An elector of `leadership` reports Elected, InDoubt and Lost; the ledger's writer reports Replaced and StorageLost
(`coordinator.leading.candidate`); its leading term reports WorkersLost (`Term`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import assert_never

from headrace.leadership.elector import Elected, ElectorEvent, InDoubt, Lost


@dataclass(frozen=True, slots=True)
class Replaced:
    """Another coordinator's record follows this one's in the ledger."""

    reason: str


@dataclass(frozen=True, slots=True)
class StorageLost:
    """The ledger has not been reached for long: another host may reach it."""

    reason: str


@dataclass(frozen=True, slots=True)
class WorkersLost:
    """All workers have been gone for long: another host may reach them."""

    reason: str


TermOver = Replaced | StorageLost | WorkersLost
"""Events of a leader that end its term without its elector."""
CandidacyEvent = ElectorEvent | TermOver


@dataclass(frozen=True, slots=True)
class Lead:
    """Take the ledger over, and lead."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Accept nothing until `Resume`."""

    reason: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Accept requests again."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Suspend the jobs, and stop. The last effect."""

    reason: str


CandidacyEffect = Lead | Hold | Resume | GiveUp


class Standing(Enum):
    """A coordinator's state in the election."""

    WAITING = auto()
    LEADING = auto()
    HOLDING = auto()
    OVER = auto()


class Candidacy:
    """The candidacy of one coordinator. has_standbys: others may replace it; without them it never gives up because of
    unreachable storage or workers."""

    def __init__(self, *, has_standbys: bool) -> None:
        self._has_standbys = has_standbys
        self._standing = Standing.WAITING

    @property
    def standing(self) -> Standing:
        """Its state now."""
        return self._standing

    def on(self, event: CandidacyEvent) -> CandidacyEffect | None:
        """Handles an event and returns its effect, if any. After `GiveUp` it ignores every event."""
        if self._standing is Standing.OVER:
            return None
        match event:
            case Elected():
                return self._on_elected()
            case InDoubt(reason):
                if self._standing is not Standing.LEADING:
                    return None
                self._standing = Standing.HOLDING
                return Hold(reason)
            case StorageLost() | WorkersLost() if not self._has_standbys:
                return None
            case Lost(reason) | Replaced(reason) | StorageLost(reason) | WorkersLost(reason):
                self._standing = Standing.OVER
                return GiveUp(reason)
            case _:
                assert_never(event)

    def _on_elected(self) -> CandidacyEffect | None:
        before, self._standing = self._standing, Standing.LEADING
        match before:
            case Standing.WAITING:
                return Lead()
            case Standing.HOLDING:
                return Resume()
            case _:
                return None


@dataclass(slots=True)
class LeaseWatch:
    """One observer's view of another candidate's lease. lease_ms: silence after which the lease has expired.

    The holder changes a value (a beat) repeatedly, and the observer measures by its own clock how long it has seen the
    same one. No clock is compared with that of another host. Method: leader election of Kubernetes' client-go.
    """

    lease_ms: int
    _beat: bytes | None = None
    _since_ms: int | None = None

    def has_expired(self, beat: bytes | None, now_ms: int) -> bool:
        """Notes the beat that was read now (None: the lease has no beat yet). now_ms: of a monotonic clock."""
        if self._since_ms is None or beat != self._beat:
            self._beat, self._since_ms = beat, now_ms
        return now_ms - self._since_ms >= self.lease_ms


@dataclass(slots=True)
class TermGuard:
    """Rejects coordinators of a lower term than the highest that one worker has seen.

    cluster  id of the cluster that the worker saw last
    term     the highest term of that cluster
    """

    cluster: str = ""
    term: int = 0

    def admits(self, cluster: str, term: int) -> bool:
        """Whether a coordinator may command this worker; notes its term. A new cluster begins with its own term."""
        if cluster == self.cluster and term < self.term:
            return False
        self.cluster, self.term = cluster, term
        return True


@dataclass(slots=True)
class WorkerWatch:
    """Whether a leader gives up because it has lost all its workers.

    A leader may be cut off from workers and not from the election. It gives up once, in favour of a host that may reach
    them. It keeps leading in three cases: it never had a worker, because leaders would change endlessly while there are
    none; the last workers have left or were released, because no host reaches those; there is no standby.

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
        """Notes a request of a standby. now_ms: of a monotonic clock, as below."""
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
        """Whether a standby sent a request shortly before: a leader that is cut off from its workers may be cut off
        from its standbys, too."""
        before_ms = self.notice_ms + self.limit_ms
        return self._standby_ms is not None and self._standby_ms >= since_ms - before_ms
