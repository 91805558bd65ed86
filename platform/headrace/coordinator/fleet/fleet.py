"""The coordinator's workers: the control server and the slot pool together, and who hears what of a slot.

Shell: it moves messages. Which slot is whose is the pool's business (`slot_pool`), what a loss means the job's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, assert_never

from headrace.coordinator.fleet.slot_pool import Changed, Grant, PooledSlot, PoolView, SlotPool
from headrace.rpc.messages import (
    CancelSlot,
    ClusterTimes,
    FromSlot,
    FromWorker,
    Heartbeat,
    KillSlot,
    Register,
    SlotDown,
    SlotSaid,
    SlotUp,
    StopWorker,
    TellSlot,
    ToSlot,
    WorkerLeaving,
)
from headrace.rpc.server import ControlServer, WorkerConnected, WorkerDisconnected, WorkerEvent, WorkerSaid
from headrace.tls.files import TlsFiles

LOG = logging.getLogger("headrace.coordinator")

KILL_AFTER_CANCEL_MS = 5_000
"""How long a slot may take beyond the cancel grace before the worker is told to kill it."""


class SlotHolder(Protocol):
    """A job, as far as its slots go. Called in the loop; must not block."""

    def granted(self, attempt: int, slots: tuple[PooledSlot, ...]) -> None:
        """The slots asked for are there."""
        ...

    def slot_said(self, slot: str, said: FromSlot) -> None:
        """One of its slots spoke."""
        ...

    def slot_lost(self, attempt: int, slot: str, worker: str, reason: str) -> None:
        """One of its slots is gone."""
        ...


@dataclass(slots=True)
class _Retiring:
    """Slots of an attempt that was left, until all of them are gone."""

    slots: set[str]
    gone: asyncio.Event = field(default_factory=asyncio.Event)


class Fleet:
    """All workers of a cluster. Belongs to the event loop."""

    def __init__(self, cluster: str, times: ClusterTimes) -> None:
        self._times = times
        self._pool = SlotPool()
        self._server = ControlServer(cluster, times, self._on_event)
        self._holders: dict[str, SlotHolder] = {}
        self._by_slot: dict[str, str] = {}
        self._workers: dict[str, Register] = {}
        self._retiring: dict[tuple[str, int], _Retiring] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int, token: str, tls: TlsFiles | None = None) -> int:
        """Listens for workers; gives the port."""
        return await self._server.start(host, port, token, tls)

    async def stop(self, *, workers: bool) -> None:
        """Closes every stream; with `workers`, tells them to end first."""
        if workers:
            for worker in self._workers:
                self._server.send(worker, StopWorker())
        for task in tuple(self._tasks):
            task.cancel()
        await self._server.stop()

    # ---- what jobs ask for ---------------------------------------------------------------------------------------

    def join(self, job: str, holder: SlotHolder) -> None:
        """From now on the holder hears of the job's slots."""
        self._holders[job] = holder

    def leave(self, job: str) -> None:
        """The job is over."""
        self._holders.pop(job, None)
        self._granted(self._pool.cancel_request(job))

    def request(self, job: str, attempt: int, count: int) -> None:
        """Asks for slots; `granted` follows."""
        self._granted(self._pool.request(job, attempt, count))

    def cancel_request(self, job: str) -> None:
        """The job waits for slots no more."""
        self._granted(self._pool.cancel_request(job))

    def tell(self, slot: PooledSlot, told: ToSlot) -> None:
        """Sends a slot a message."""
        self._server.send(slot.worker, TellSlot(slot.slot, told))

    def give_back(self, job: str, attempt: int) -> None:
        """Slots that were granted, but to which nothing was deployed."""
        for slot in self._pool.held_by(job, attempt):
            self._by_slot.pop(slot.slot, None)
        self._granted(self._pool.release_attempt(job, attempt, deployed=False))

    async def retire(self, job: str, attempt: int, slots: Sequence[PooledSlot], *, cancel: bool) -> None:
        """Ends an attempt's slots and waits until they are gone: told to, then killed. Those of a lost worker are."""
        present = {slot.slot for slot in slots if slot.slot in self._by_slot}
        retiring = _Retiring(present)
        if not present:
            return
        self._retiring[job, attempt] = retiring
        own = [slot for slot in slots if slot.slot in present]
        try:
            if cancel:
                for slot in own:
                    self.tell(slot, CancelSlot())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout((self._times.cancel + KILL_AFTER_CANCEL_MS) / 1000):
                    await retiring.gone.wait()
            for slot in own:
                if slot.slot in retiring.slots:
                    LOG.warning("slot %s did not leave attempt %d of job %s: killed", slot.slot, attempt, job)
                    self._server.send(slot.worker, KillSlot(slot.slot))
            if retiring.slots:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(KILL_AFTER_CANCEL_MS / 1000):
                        await retiring.gone.wait()
        finally:
            self._retiring.pop((job, attempt), None)
            self._granted(self._pool.release_attempt(job, attempt))

    # ---- looks ---------------------------------------------------------------------------------------------------

    def view(self) -> PoolView:
        """Workers and slots."""
        return self._pool.view()

    def registered(self, worker: str) -> Register | None:
        """What a worker said of itself."""
        return self._workers.get(worker)

    # ---- what workers say ----------------------------------------------------------------------------------------

    def _on_event(self, event: WorkerEvent) -> None:
        match event:
            case WorkerConnected(worker, register):
                LOG.info("worker %s at %s has joined with %d slots", worker, register.host, register.slots_max)
                self._workers[worker] = register
                self._changed(
                    self._pool.register(
                        worker, register.host, register.pid, register.slots_max, register.idle, register.busy
                    ),
                    f"worker {worker} joined anew without it",
                    worker,
                )
            case WorkerSaid(worker, message):
                self._on_message(worker, message)
            case WorkerDisconnected(worker, reason, clean):
                LOG.log(logging.INFO if clean else logging.WARNING, "worker %s is gone: %s", worker, reason)
                self._workers.pop(worker, None)
                self._changed(self._pool.worker_lost(worker), f"worker {worker} is lost: {reason}", worker)
            case _:
                assert_never(event)

    def _on_message(self, worker: str, message: FromWorker) -> None:
        match message:
            case SlotUp(info):
                self._changed(self._pool.slot_up(worker, info), "", worker)
            case SlotDown(slot, reason, _clean):
                self._gone(slot)
                self._changed(self._pool.slot_down(slot), f"slot {slot}: {reason}", worker)
            case SlotSaid(slot, said):
                holder = self._holders.get(self._by_slot.get(slot, ""))
                if holder is not None:
                    holder.slot_said(slot, said)
            case Register() | Heartbeat() | WorkerLeaving():
                pass
            case _:
                assert_never(message)

    def _changed(self, changed: Changed, reason: str, worker: str) -> None:
        for slot in changed.strangers:
            self._server.send(worker, KillSlot(slot))
        for lost in changed.lost:
            self._gone(lost.slot)
            holder = self._holders.get(lost.job)
            if holder is not None:
                holder.slot_lost(lost.attempt, lost.slot, lost.worker, reason)
        self._granted(changed.grants)

    def _gone(self, slot: str) -> None:
        self._by_slot.pop(slot, None)
        for retiring in self._retiring.values():
            retiring.slots.discard(slot)
            if not retiring.slots:
                retiring.gone.set()

    def _granted(self, grants: Iterable[Grant]) -> None:
        for grant in grants:
            holder = self._holders.get(grant.job)
            if holder is None:
                self._granted(self._pool.release_attempt(grant.job, grant.attempt, deployed=False))
                continue
            for slot in grant.slots:
                self._by_slot[slot.slot] = grant.job
            holder.granted(grant.attempt, grant.slots)
