"""Workers, their slots, and the attempts that hold them. Pure: events of workers and jobs in, grants out.

    slot_up ─> FREE ─request─> HELD ─release─> SPENT ─slot_down─> gone
                 ^───────────────┘ released before anything was deployed to it

A slot is used once: its process exits with the attempt, and the worker starts a replacement with a new id. A request is
granted all of its slots or none, round-robin over the workers; the n-th slot runs the n-th subtasks. Requests are
granted in the order of their arrival, with one exception: a request for more slots than the whole cluster has waits for
further workers, and later requests are granted before it. A worker that is drained keeps its place until it is gone,
and its slots are not granted any more: an idle one that the coordinator releases, or one that leaves, whose slots are
held until their attempts have moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.rpc.messages import SlotInfo


class SlotUse(StrEnum):
    """The use of a slot. FREE: can be granted; HELD: an attempt has it; SPENT: its process is exiting."""

    FREE = "free"
    HELD = "held"
    SPENT = "spent"


@dataclass(frozen=True, slots=True)
class PooledSlot:
    """A slot process and its worker."""

    worker: str
    info: SlotInfo

    @property
    def slot(self) -> str:
        """The slot's id."""
        return self.info.slot


@dataclass(frozen=True, slots=True)
class Grant:
    """Slots for an attempt. A slot's position in `slots` is its index in the attempt."""

    job: str
    attempt: int
    slots: tuple[PooledSlot, ...]


@dataclass(frozen=True, slots=True)
class Holding:
    """A slot that an attempt held."""

    job: str
    attempt: int
    slot: str
    worker: str


@dataclass(frozen=True, slots=True)
class Changed:
    """The consequences of a worker's event.

    lost        held slots that are gone: their attempts fail
    grants      requests that are granted now
    strangers   busy slots that no attempt of this coordinator holds: the caller has them killed
    """

    lost: tuple[Holding, ...] = ()
    grants: tuple[Grant, ...] = ()
    strangers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Leaving:
    """The consequences of a worker's wish to leave. held: slots of it that attempts hold; grants: as of `Changed`."""

    held: tuple[Holding, ...] = ()
    grants: tuple[Grant, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker for `cluster status`. `slots`: its capacity; `free`: idle slots that no attempt holds."""

    worker: str
    host: str
    pid: int
    slots: int
    free: int


@dataclass(frozen=True, slots=True)
class QueuedView:
    """A job that waits for slots."""

    job: str
    attempt: int
    slots: int


@dataclass(frozen=True, slots=True)
class PooledWorker:
    """A worker, for the decision how many are needed. `idle`: no attempt has a slot of it, and no slot of it exits."""

    worker: str
    slots: int
    idle: bool


@dataclass(frozen=True, slots=True)
class Demand:
    """The needs of the jobs: `slots` that each holds or requests; `workers` that can be granted; `leaving`: those that
    are connected and are not granted any more."""

    slots: int
    workers: tuple[PooledWorker, ...]
    leaving: tuple[PooledWorker, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolView:
    """The pool, as users see it."""

    workers: tuple[WorkerView, ...]
    slots_total: int
    slots_free: int
    queued: tuple[QueuedView, ...]


@dataclass(slots=True)
class _Worker:
    host: str
    pid: int
    slots_max: int
    slots: dict[str, _Slot] = field(default_factory=dict)
    drained: bool = False

    def free(self) -> list[_Slot]:
        return [] if self.drained else [slot for slot in self.slots.values() if slot.use is SlotUse.FREE]

    def is_idle(self) -> bool:
        return all(slot.use is SlotUse.FREE for slot in self.slots.values())


@dataclass(slots=True)
class _Slot:
    place: PooledSlot
    use: SlotUse = SlotUse.FREE
    holder: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class _Request:
    job: str
    attempt: int
    count: int


class SlotPool:
    """The slots of one cluster."""

    def __init__(self) -> None:
        self._workers: dict[str, _Worker] = {}
        self._slots: dict[str, _Slot] = {}
        self._queue: list[_Request] = []

    # ---- workers -------------------------------------------------------------------------------------------------

    def register(
        self,
        worker: str,
        host: str,
        pid: int,
        slots_max: int,
        idle: Sequence[SlotInfo] = (),
        busy: Sequence[SlotInfo] = (),
    ) -> Changed:
        """Registers a worker, for the first time or again. `idle` and `busy` are all the slots that it has."""
        entry = self._workers.setdefault(worker, _Worker(host, pid, slots_max))
        entry.host, entry.pid, entry.slots_max = host, pid, slots_max
        present = {info.slot for info in (*idle, *busy)}
        lost = self._forget(slot for slot in list(entry.slots) if slot not in present)
        strangers = []
        for info in idle:
            # a slot that is held here stays held although the worker reports it as idle: its deployment may be in
            # transit
            if info.slot not in self._slots:
                self._add(worker, info)
        for info in busy:
            slot = self._slots.get(info.slot) or self._add(worker, info)
            # a busy slot that no attempt holds here runs an attempt that has ended, or one of an earlier coordinator:
            # running slots are never adopted
            if slot.use is not SlotUse.HELD:
                slot.use = SlotUse.SPENT
                strangers.append(info.slot)
        return Changed(lost, self._serve(), tuple(strangers))

    def slot_up(self, worker: str, info: SlotInfo) -> Changed:
        """A slot process of a registered worker is ready. Slots of unknown workers, and known slots, are ignored."""
        if worker in self._workers and info.slot not in self._slots:
            self._add(worker, info)
        return Changed(grants=self._serve())

    def slot_down(self, slot: str) -> Changed:
        """Removes a slot whose process has exited."""
        return Changed(self._forget([slot]), self._serve())

    def worker_lost(self, worker: str) -> Changed:
        """Removes a worker with all of its slots."""
        entry = self._workers.get(worker)
        lost = () if entry is None else self._forget(list(entry.slots))
        self._workers.pop(worker, None)
        # the cluster is smaller now: a request that has become too large for it no longer blocks later ones
        return Changed(lost, self._serve())

    def drain(self, worker: str) -> Changed:
        """Grants no slot of an idle worker any more. A worker with slots in use, or an unknown one, stays as it is."""
        entry = self._workers.get(worker)
        if entry is not None and entry.is_idle():
            entry.drained = True
        # the cluster is smaller now, as when a worker is lost
        return Changed(grants=self._serve())

    def leave(self, worker: str) -> Leaving:
        """Grants no slot of a worker any more, whether it is idle or not. Unknown workers are ignored."""
        entry = self._workers.get(worker)
        if entry is None:
            return Leaving()
        entry.drained = True
        held = [slot for slot in entry.slots.values() if slot.holder is not None]
        holdings = tuple(Holding(*slot.holder, slot.place.slot, worker) for slot in held if slot.holder is not None)
        return Leaving(holdings, self._serve())

    # ---- jobs ----------------------------------------------------------------------------------------------------

    def request(self, job: str, attempt: int, count: int) -> tuple[Grant, ...]:
        """Requests `count` slots. The job's grant is among the returned ones, or the request waits.

        It replaces an earlier request of the job. So requests that the earlier one blocked may be granted, too.
        """
        assert count > 0, "a request is for at least one slot"
        assert not any(slot.holder == (job, attempt) for slot in self._slots.values()), "an attempt asks once"
        self._queue = [each for each in self._queue if each.job != job]
        self._queue.append(_Request(job, attempt, count))
        return self._serve()

    def cancel_request(self, job: str) -> tuple[Grant, ...]:
        """Withdraws the job's request. Returns the grants to requests that it blocked."""
        self._queue = [each for each in self._queue if each.job != job]
        return self._serve()

    def release(self, slot: str, *, deployed: bool = True) -> tuple[Grant, ...]:
        """Releases a slot. If it was deployed to, its process exits and it cannot be granted again; otherwise
        (`deployed=False`) it is free. Ignores unknown slots.
        """
        entry = self._slots.get(slot)
        if entry is not None and entry.use is SlotUse.HELD:
            entry.holder = None
            entry.use = SlotUse.SPENT if deployed else SlotUse.FREE
        return self._serve()

    def release_attempt(self, job: str, attempt: int, *, deployed: bool = True) -> tuple[Grant, ...]:
        """`release` for all slots of an attempt."""
        for slot in [each for each in self._slots.values() if each.holder == (job, attempt)]:
            slot.holder = None
            slot.use = SlotUse.SPENT if deployed else SlotUse.FREE
        return self._serve()

    def held_by(self, job: str, attempt: int) -> tuple[PooledSlot, ...]:
        """Returns the slots that an attempt holds, by worker and id."""
        held = [slot.place for slot in self._slots.values() if slot.holder == (job, attempt)]
        return tuple(sorted(held, key=_by_name))

    # ---- reads ---------------------------------------------------------------------------------------------------

    def view(self) -> PoolView:
        """Returns workers by id, totals and the queue."""
        workers = tuple(
            WorkerView(name, each.host, each.pid, each.slots_max, len(each.free()))
            for name, each in sorted(self._workers.items())
        )
        return PoolView(
            workers=workers,
            slots_total=self._capacity(),
            slots_free=sum(each.free for each in workers),
            queued=tuple(QueuedView(each.job, each.attempt, each.count) for each in self._queue),
        )

    def demand(self) -> Demand:
        """Returns what the jobs need, and the workers by id."""
        wanted = Counter(slot.holder[0] for slot in self._slots.values() if slot.holder is not None)
        for request in self._queue:
            # a job that requests slots gives those back that it still holds: they are of the attempt before
            wanted[request.job] = max(wanted[request.job], request.count)
        loads = {
            name: PooledWorker(name, each.slots_max, each.is_idle()) for name, each in sorted(self._workers.items())
        }
        workers = tuple(load for name, load in loads.items() if not self._workers[name].drained)
        leaving = tuple(load for name, load in loads.items() if self._workers[name].drained)
        return Demand(wanted.total(), workers, leaving)

    def validate(self) -> None:
        """Asserts the pool's invariants."""
        inside = {name: slot for worker in self._workers.values() for name, slot in worker.slots.items()}
        assert inside == self._slots, "each slot is on one worker"
        for name, slot in self._slots.items():
            assert slot.place.slot == name
            assert (slot.use is SlotUse.HELD) == (slot.holder is not None), f"{name} is {slot.use}"
        assert len({each.job for each in self._queue}) == len(self._queue), "a job waits once"
        waiting = next((each for each in self._queue if each.count <= self._capacity()), None)
        assert waiting is None or waiting.count > len(self._free()), f"{waiting} could be served"

    # ---- inside --------------------------------------------------------------------------------------------------

    def _add(self, worker: str, info: SlotInfo) -> _Slot:
        slot = _Slot(PooledSlot(worker, info))
        self._slots[info.slot] = self._workers[worker].slots[info.slot] = slot
        return slot

    def _forget(self, slots: Iterable[str]) -> tuple[Holding, ...]:
        lost = []
        for name in slots:
            slot = self._slots.pop(name, None)
            if slot is None:
                continue
            del self._workers[slot.place.worker].slots[name]
            if slot.holder is not None:
                lost.append(Holding(*slot.holder, name, slot.place.worker))
        return tuple(lost)

    def _free(self) -> list[_Slot]:
        return [slot for worker in self._workers.values() for slot in worker.free()]

    def _capacity(self) -> int:
        return sum(worker.slots_max for worker in self._workers.values() if not worker.drained)

    def _serve(self) -> tuple[Grant, ...]:
        grants = []
        while (request := self._next()) is not None:
            self._queue.remove(request)
            chosen = self._choose(request.count)
            for slot in chosen:
                slot.use, slot.holder = SlotUse.HELD, (request.job, request.attempt)
            grants.append(Grant(request.job, request.attempt, tuple(slot.place for slot in chosen)))
        return tuple(grants)

    def _next(self) -> _Request | None:
        capacity = self._capacity()
        first = next((each for each in self._queue if each.count <= capacity), None)
        return first if first is not None and first.count <= len(self._free()) else None

    def _choose(self, count: int) -> list[_Slot]:
        """Chooses slots round-robin over the workers, most free slots first. Deterministic."""
        free = {name: sorted(worker.free(), key=lambda slot: slot.place.slot) for name, worker in self._workers.items()}
        order = sorted((name for name in free if free[name]), key=lambda name: (-len(free[name]), name))
        rounds = (free[name][place] for place in range(count) for name in order if place < len(free[name]))
        return [slot for slot, _ in zip(rounds, range(count), strict=False)]


def _by_name(slot: PooledSlot) -> tuple[str, str]:
    return slot.worker, slot.slot
