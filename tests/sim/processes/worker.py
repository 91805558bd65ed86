"""A worker: keeps slot processes, connects to whoever is the coordinator, and gives up what it has lost touch with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.rpc.messages import Address, FromSlot, SlotInfo, ToSlot
from sim.external.outside import Appended
from sim.external.storage import Storage
from sim.external.transactions import Brokers
from sim.names import names_of_writer
from sim.processes.slot import Slot
from sim.processes.writer import WriterTerms
from sim.world import Line, Process, World

if TYPE_CHECKING:
    from sim.cluster import Cluster
    from sim.processes.coordinator import Coordinator

BEAT_MS = 1_000
LEASE_MS = 10_000
FROZEN_SLOT_MS = 10_000
DRAIN_MS = 20_000
"""How long a worker that is to end waits for its jobs to move."""


class Session:
    """A stream between a worker and a coordinator, as both see it."""

    def __init__(self, world: World, worker: Worker, coordinator: Coordinator) -> None:
        self.worker = worker
        self.coordinator = coordinator
        self.up = Line(world, coordinator)
        self.down = Line(world, worker)
        self.closed = False
        self.heard_by_worker_ms = world.now_ms
        self.heard_by_coordinator_ms = world.now_ms

    def cut(self) -> None:
        """It is gone, with all that was under way."""
        self.closed = True
        self.up.cut()
        self.down.cut()

    def beat(self) -> None:
        """One beat each way, if both are there to hear it."""
        world = self.worker.world
        if self.closed or world.now_ms < self.up.blocked_until_ms:
            return
        if self.worker.awake and self.coordinator.awake:
            self.heard_by_worker_ms = self.heard_by_coordinator_ms = world.now_ms


class Worker(Process):
    """A supervisor and its slots."""

    def __init__(self, cluster: Cluster, name: str, slots: int) -> None:
        super().__init__(cluster.world, name)
        self._cluster = cluster
        self._places = slots
        self._spawned = 0
        self.storage: Storage = cluster.storage
        self.appended: Appended = cluster.appended
        self.brokers: Brokers | None = cluster.brokers
        self.commits = cluster.story.commits
        self.lax = cluster.story.lax
        self.declines = cluster.story.declines
        self.hangs = cluster.story.hangs
        self.slots: dict[str, Slot] = {}
        self.session: Session | None = None
        self.frozen_ms = 0
        self._drained_by_ms: int | None = None
        for _ in range(slots):
            self._spawn()
        self._beat()

    def writer_terms(self, attempt: int, subtask: int) -> WriterTerms:
        """What a writer of that attempt is told."""
        story = self._cluster.story
        names = names_of_writer(story, attempt, subtask)
        return WriterTerms(attempt, subtask, names, story.transaction_ms)

    def is_newest(self, attempt: int) -> bool:
        """Whether no later attempt has begun."""
        return attempt == self._cluster.auditor.attempt

    def crashes_at(self, partition: int, rows: range) -> bool:
        """Whether a slot that reads these rows crashes."""
        poison = self._cluster.poison
        return poison is not None and poison.partition == partition and poison.position in rows

    def drain(self) -> None:
        """SIGTERM: it ends when no slot is busy, or when its time has passed."""
        if self._drained_by_ms is None:
            self._drained_by_ms = self.world.now_ms + DRAIN_MS
            self._say_draining()

    def _say_draining(self) -> None:
        session = self.session
        if session is not None:
            session.up.send(lambda: session.coordinator.leaving(self.name))

    def _check_drained(self, drained_by_ms: int) -> None:
        if self.world.now_ms >= drained_by_ms or not any(slot.busy for slot in self.slots.values()):
            self._cluster.worker_left(self)

    # ---- slots ---------------------------------------------------------------------------------------------------

    def _spawn(self) -> None:
        if len(self.slots) >= self._places or self._drained_by_ms is not None:
            return
        self._spawned += 1
        slot = Slot(self, f"{self.name}s{self._spawned}")
        self.slots[slot.name] = slot
        self._say_up(slot)

    def _say_up(self, slot: Slot) -> None:
        session = self.session
        if session is not None:
            session.up.send(lambda: session.coordinator.slot_up(self, info_of(slot)))

    def slot_ended(self, slot: Slot) -> None:
        """The process of a slot is gone; the worker hears of it when it can."""
        # the crash itself may be reported after the connections that neighbours have lost
        late = slot.ending.domain != "external" and self.world.happens(0.5)
        self.after(self.world.between(1, 2_000 if late else 50), lambda: self._bury(slot))

    def _bury(self, slot: Slot) -> None:
        if self.slots.pop(slot.name, None) is None:
            return
        session = self.session
        if session is not None:
            session.up.send(lambda: session.coordinator.slot_down(slot.name, slot.ending))
        self.after(self.world.between(300, 2_000), self._spawn)

    def slot_lost(self, slot: Slot) -> None:
        """The slot has ended without a goodbye to its peers."""
        self._cluster.lose_peer(slot)

    def slot_said(self, slot: Slot, said: FromSlot) -> None:
        """Passes a slot's words on. They wait in the pipe while the worker is frozen."""
        self.deliver(lambda: self._pass_on(slot, said))
        if self.world.happens(self._cluster.story.doubled):
            self.deliver(lambda: self._pass_on(slot, said))

    def _pass_on(self, slot: Slot, said: FromSlot) -> None:
        session = self.session
        if session is not None:
            session.up.send(lambda: session.coordinator.slot_said(slot.name, said))

    def tell_slot(self, name: str, told: ToSlot) -> None:
        """The coordinator's message for a slot has arrived here."""
        slot = self.slots.get(name)
        if slot is not None:
            slot.deliver(lambda: slot.told(told))

    def kill_slot(self, name: str) -> None:
        """The coordinator wants the process ended."""
        slot = self.slots.get(name)
        if slot is not None:
            slot.leave()

    # ---- the coordinator -----------------------------------------------------------------------------------------

    def _beat(self) -> None:
        session = self.session
        if session is None:
            self._connect()
        elif session.closed or not session.coordinator.alive:
            self._disconnect()
        elif self.world.now_ms - session.heard_by_worker_ms >= LEASE_MS:
            self._disconnect()
            for slot in list(self.slots.values()):
                if slot.busy:
                    slot.leave()
        else:
            session.beat()
        for slot in list(self.slots.values()):
            if slot.frozen and self.world.now_ms - slot.frozen_ms >= FROZEN_SLOT_MS:
                slot.leave()
        self.after(BEAT_MS, self._beat)
        if self._drained_by_ms is not None:
            self._check_drained(self._drained_by_ms)

    def _disconnect(self) -> None:
        assert self.session is not None, "there is one"
        self.session.cut()
        self.session = None

    def _connect(self) -> None:
        coordinator = self._cluster.endpoint
        if coordinator is None or not coordinator.awake or self.world.now_ms < self._cluster.cut_until_ms(self):
            return
        session = self.session = Session(self.world, self, coordinator)
        idle = tuple(info_of(slot) for slot in self.slots.values() if not slot.busy)
        busy = tuple(info_of(slot) for slot in self.slots.values() if slot.busy)
        session.up.send(lambda: coordinator.joined(session, self._places, idle, busy))
        if self._drained_by_ms is not None:
            self._say_draining()


def info_of(slot: Slot) -> SlotInfo:
    """A slot as the control plane names it."""
    return SlotInfo(slot.name, 0, Address("host", 0, ""))
