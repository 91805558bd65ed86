"""Decides which workers a cluster starts and releases. Pure: the system's list and the jobs' needs in, effects out.

    StartWorker ──> STARTING ── it joins ──> JOINED ── not needed for `idle_ms` ──────> LEAVING ── not listed ──> gone
                       │                        └─── its process ends, or it is lost ──────^
                       └─ it ends, or runs for `join_ms` and does not join ────────────────^

A cluster has as many workers as hold the slots that jobs have or request, between the configured limits. A worker that
has joined and is gone for `RETURN_MS` is replaced at once, even if Kubernetes or YARN still lists it. A worker that is
pending is never replaced: a second one would wait for the same node or quota.

Nothing is remembered that the next coordinator would need. It finds workers of earlier coordinators in the list, and
takes them for STARTING: they join again or are replaced. Workers that joined and are not listed were started by hand;
they count, and are never released.

After a failed start the next one waits, twice as long each time, until a worker joins or none is missing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.coordinator.provisioning.config import ProvisioningConfig
from headrace.coordinator.provisioning.slot_pool import Demand, PooledWorker
from headrace.resources.driver import WorkerPhase, WorkerReport

STARTS_MAX = 16
"""At most this many workers are started by one decision."""
RELEASE_AGAIN_MS = 10_000
"""A worker that is still listed this long after it was released is released again."""
RETURN_MS = 3_000
"""How long a worker whose connection was lost may take to join again. One that lives does so within a second."""
ADOPTED_MS_MAX = 30_000
"""How long a running worker of an earlier coordinator may take to join this one; less if `join_ms` is less."""
SPARED_MS = 15_000
"""No worker is released as idle so early in a term: jobs that are resumed have not requested their slots yet."""
PAUSE_MS, PAUSE_MS_MAX = 1_000, 60_000
"""The wait after a failed start: the first one, and the longest."""
ENDED_MAX = 20
"""Ends of workers that are kept, for users."""


@dataclass(frozen=True, slots=True)
class StartWorker:
    """Have the system start a worker of this id."""

    worker: str


@dataclass(frozen=True, slots=True)
class ReleaseWorker:
    """Grant no slot of this worker any more, and have the system end it."""

    worker: str


@dataclass(frozen=True, slots=True)
class DropWorker:
    """Treat a worker that is connected as lost: its process has ended."""

    worker: str
    reason: str


@dataclass(frozen=True, slots=True)
class DrainWorker:
    """Have the jobs of a worker move to others: its system is going to end it."""

    worker: str


ProvisioningEffect = StartWorker | ReleaseWorker | DropWorker | DrainWorker


@dataclass(frozen=True, slots=True)
class ExpectedWorker:
    """A worker that has not joined yet, for users. reason: the system's, may be empty."""

    worker: str
    phase: WorkerPhase
    reason: str


@dataclass(frozen=True, slots=True)
class EndedWorker:
    """A worker whose process has ended, although nothing released it. reason: the system's."""

    worker: str
    reason: str


@dataclass(frozen=True, slots=True)
class ProvisioningView:
    """The part that users see. expected: workers that have not joined; trouble: why there are too few, empty: none is
    known; slots_max: of the largest cluster that it makes; ended: the last `ENDED_MAX`, oldest first."""

    expected: tuple[ExpectedWorker, ...]
    trouble: str
    slots_max: int
    ended: tuple[EndedWorker, ...] = ()


@dataclass(slots=True)
class _Own:
    """A worker of the system.

    running_ms   since when its process runs and is not connected; None: it does not run, or is connected
    spare_ms     since when it is not needed; None: it is
    released_ms  when it was released last; None: it is not LEAVING
    is_lost      whether it was released because it had failed, not because it was idle
    is_drained   whether its jobs were asked to move
    """

    phase: WorkerPhase = WorkerPhase.PENDING
    reason: str = ""
    joined: bool = False
    running_ms: int | None = None
    spare_ms: int | None = None
    released_ms: int | None = None
    is_lost: bool = False
    is_drained: bool = False


class Provisioning:
    """The workers of one coordinator's term. prefix: begins the ids of its workers, different in each term. Times are
    those of a monotonic clock."""

    def __init__(self, config: ProvisioningConfig, prefix: str) -> None:
        self._config = config
        self._prefix = prefix
        self._made = 0
        self._own: dict[str, _Own] = {}
        self._begun_ms: int | None = None
        self._pause_ms = 0
        self._start_from_ms = 0
        self._trouble = ""
        self._ended_last: deque[EndedWorker] = deque(maxlen=ENDED_MAX)

    # ---- events --------------------------------------------------------------------------------------------------

    def decide(self, reports: Iterable[WorkerReport], demand: Demand, now_ms: int) -> tuple[ProvisioningEffect, ...]:
        """Compares what the system lists with what the jobs need. `demand` must be of the moment of the call."""
        self._begun_ms = now_ms if self._begun_ms is None else self._begun_ms
        listed = {each.worker: each for each in reports}
        joined = {each.worker: each for each in demand.workers}
        effects: list[ProvisioningEffect] = []
        self._forget(listed, joined, now_ms)
        leaving = {each.worker: each for each in demand.leaving}
        for name, report in sorted(listed.items()):
            if self._is_draining(name, report, joined, leaving):
                effects += self._drain(name, joined.get(name) or leaving[name], now_ms)
            else:
                effects += self._judge(name, report, joined.get(name), now_ms)
        return (*effects, *self._sized(demand, now_ms))

    def start_failed(self, worker: str, reason: str, now_ms: int) -> None:
        """Notes that the system has refused a start. If it has accepted it all the same, it lists the worker."""
        self._own.pop(worker, None)
        self._failed(reason, now_ms)

    # ---- reads ---------------------------------------------------------------------------------------------------

    @property
    def expected(self) -> tuple[ExpectedWorker, ...]:
        """The workers that have not joined yet, by id."""
        return tuple(
            ExpectedWorker(name, own.phase, own.reason)
            for name, own in sorted(self._own.items())
            if own.released_ms is None and not own.joined
        )

    @property
    def known(self) -> frozenset[str]:
        """Ids of the workers that the system still lists, that were ordered, or that are still connected."""
        return frozenset(self._own)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is awaited: no worker starts, leaves or waits to be started."""
        return not self._trouble and all(
            own.joined and own.released_ms is None and not own.is_drained for own in self._own.values()
        )

    @property
    def trouble(self) -> str:
        """Why the last start failed, until a worker joins; empty: it did not."""
        return self._trouble

    @property
    def ended(self) -> tuple[EndedWorker, ...]:
        """The workers of this term that have ended without a release, and why; the last ones, oldest first."""
        return tuple(self._ended_last)

    # ---- inside --------------------------------------------------------------------------------------------------

    def _forget(self, listed: Mapping[str, WorkerReport], joined: Mapping[str, PooledWorker], now_ms: int) -> None:
        """Drops workers of which nothing is left. One that is connected and not listed any more, because somebody has
        deleted it, stays until its connection ends: its process may still run."""
        for name in [name for name in self._own if name not in listed and name not in joined]:
            own = self._own.pop(name)
            if not own.joined and own.released_ms is None:
                self._failed(f"worker {name} disappeared before it had joined", now_ms)

    def _is_draining(
        self,
        name: str,
        report: WorkerReport,
        joined: Mapping[str, PooledWorker],
        leaving: Mapping[str, PooledWorker],
    ) -> bool:
        """Whether a worker is connected, and its system has said that it is going to end it."""
        own = self._own.get(name)
        is_ours = own is None or own.released_ms is None
        is_running = report.is_leaving and report.phase is WorkerPhase.RUNNING
        return is_running and is_ours and (name in joined or name in leaving)

    def _drain(self, name: str, load: PooledWorker, now_ms: int) -> Iterable[ProvisioningEffect]:
        """Has its jobs move, and releases it once they have. Another worker is started in its place meanwhile."""
        own = self._own.setdefault(name, _Own())
        own.phase, own.joined = WorkerPhase.RUNNING, True
        if not own.is_drained:
            own.is_drained = True
            return (DrainWorker(name),)
        return self._release(name, now_ms) if load.idle else ()

    def _judge(
        self, name: str, report: WorkerReport, load: PooledWorker | None, now_ms: int
    ) -> Iterable[ProvisioningEffect]:
        """Notes what has become of one worker. A worker of an earlier term is seen here for the first time."""
        own = self._own.setdefault(name, _Own())
        has_just_ended = report.phase is WorkerPhase.ENDED and own.phase is not WorkerPhase.ENDED
        own.phase, own.reason = report.phase, report.reason
        # the system may name the reason after the connection has ended, or after the worker was abandoned
        if has_just_ended and report.reason and (own.released_ms is None or own.is_lost):
            self._ended_last.append(EndedWorker(name, report.reason))
        if own.released_ms is not None:
            is_due = has_just_ended or now_ms - own.released_ms >= RELEASE_AGAIN_MS
            return self._release(name, now_ms) if is_due else ()
        if report.phase is WorkerPhase.ENDED:
            if load is not None:
                own.is_lost = True
                return (DropWorker(name, report.reason or "its process has ended"), *self._release(name, now_ms))
            return self._ended(name, report.reason or "its process ended before it had joined", now_ms)
        if load is not None:
            self._joins(own)
        elif own.joined or report.phase is WorkerPhase.RUNNING:
            own.running_ms = now_ms if own.running_ms is None else own.running_ms
            limit_ms = self._join_limit_ms(name, own)
            if now_ms - own.running_ms >= limit_ms:
                return self._ended(name, f"it did not join within {limit_ms / 1_000:g} s", now_ms)
        return ()

    def _failed(self, reason: str, now_ms: int) -> None:
        self._trouble = reason
        self._pause_ms = min(max(2 * self._pause_ms, PAUSE_MS), PAUSE_MS_MAX)
        self._start_from_ms = now_ms + self._pause_ms

    def _joins(self, own: _Own) -> None:
        own.running_ms = None
        if not own.joined:
            own.joined = True
            self._clear_trouble()

    def _clear_trouble(self) -> None:
        self._pause_ms, self._start_from_ms, self._trouble = 0, 0, ""

    def _join_limit_ms(self, name: str, own: _Own) -> int:
        if own.joined:
            return RETURN_MS
        is_adopted = not name.startswith(self._prefix)
        return min(self._config.join_ms, ADOPTED_MS_MAX) if is_adopted else self._config.join_ms

    def _ended(self, name: str, reason: str, now_ms: int) -> Iterable[ProvisioningEffect]:
        self._own[name].is_lost = True
        if not self._own[name].joined:
            self._failed(f"worker {name}: {reason}", now_ms)
        return self._release(name, now_ms)

    def _release(self, name: str, now_ms: int) -> tuple[ReleaseWorker]:
        self._own[name].released_ms = now_ms
        return (ReleaseWorker(name),)

    def _sized(self, demand: Demand, now_ms: int) -> Iterable[ProvisioningEffect]:
        """Starts what is missing, and releases what has not been needed for long."""
        present = {name: own for name, own in self._own.items() if own.released_ms is None and not own.is_drained}
        foreign = sum(each.slots for each in demand.workers if each.worker not in self._own)
        needed = -(-max(0, demand.slots - foreign) // self._config.slots)
        wanted = min(max(needed, self._config.workers_min), self._config.workers_max)
        if len(present) >= wanted and all(own.joined for own in present.values()):
            self._clear_trouble()
        if len(present) < wanted and now_ms >= self._start_from_ms:
            yield from self._starts(min(wanted - len(present), STARTS_MAX))
        yield from self._spare(present, demand, len(present) - wanted, now_ms)

    def _starts(self, count: int) -> Iterable[StartWorker]:
        for _ in range(count):
            self._made += 1
            name = f"{self._prefix}{self._made}"
            self._own[name] = _Own()
            yield StartWorker(name)

    def _spare(self, present: Mapping[str, _Own], demand: Demand, surplus: int, now_ms: int) -> Iterable[ReleaseWorker]:
        idle = {each.worker for each in demand.workers if each.idle}
        is_early = self._begun_ms is None or now_ms - self._begun_ms < SPARED_MS
        for name, own in present.items():
            is_spare = surplus > 0 and (not own.joined or name in idle)
            own.spare_ms = (now_ms if own.spare_ms is None else own.spare_ms) if is_spare else None
        due = [
            (own.joined, own.spare_ms, name)
            for name, own in present.items()
            if own.spare_ms is not None and now_ms - own.spare_ms >= self._config.idle_ms and not is_early
        ]
        # those that do not run yet first, then those that have been idle for longest
        for _, _, name in sorted(due)[: max(surplus, 0)]:
            yield from self._release(name, now_ms)
