"""The coordinator's workers: passes their events to the slot pool, and routes messages between slots and jobs.

Shell: it decides nothing. The pool (`provisioning.slot_pool`) decides which attempt holds a slot; the job decides what
follows when it loses one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol, assert_never

from headrace.coordinator.fleet.shared_secrets import SharedSecrets
from headrace.coordinator.provisioning.provisioning import ProvisioningView
from headrace.coordinator.provisioning.slot_pool import Changed, Demand, Grant, PooledSlot, PoolView, SlotPool
from headrace.core.errors import Domain, ExternalError, UserError
from headrace.rpc import codec, messages
from headrace.rpc.server import ControlServer
from headrace.rpc.sessions.sessions import WorkerConnected, WorkerDisconnected, WorkerEvent, WorkerMessage
from headrace.rpc.time_settings import ClusterTimes
from headrace.tls.files import TlsFiles

LOG = logging.getLogger("headrace.coordinator")

ANSWER_SECONDS_MAX = 30.0
"""How long a worker may take for its stacks or its logs (s)."""
KILL_AFTER_CANCEL_MS = 5_000
"""How long a cancelled slot may exceed the cancel grace (`ClusterTimes.cancel`) before its worker is asked to kill it,
in ms."""


class SlotHolder(Protocol):
    """The owner of a job's slots, which receives their messages. Called in the event loop; must not block."""

    def granted(self, attempt: int, slots: tuple[PooledSlot, ...]) -> None:
        """Called when the requested slots are granted."""
        ...

    def slot_message(self, slot: str, payload: bytes) -> None:
        """Called with an encoded FromSlot message of one of its slots."""
        ...

    def slot_lost(self, attempt: int, slot: str, failure: messages.Failure) -> None:
        """Called when one of its slots is gone; `failure` names the worker."""
        ...

    def slot_leaving(self, attempt: int, slot: str, worker: str) -> None:
        """Called when the worker of one of its slots is going to end."""
        ...


class WorkerSource(Protocol):
    """Makes a cluster's workers. Called in the event loop; must not block."""

    def demand_changed(self) -> None:
        """Called when workers have come or gone, or a job needs other slots than before."""
        ...

    def view(self) -> ProvisioningView:
        """Returns what is on its way."""
        ...


@dataclass(slots=True)
class _Retiring:
    """Slots of an ended attempt, until all of them are gone."""

    slots: set[str]
    gone: asyncio.Event = field(default_factory=asyncio.Event)


class Fleet:
    """All workers of a cluster. Belongs to the event loop."""

    def __init__(
        self, cluster: str, times: ClusterTimes, *, term: int = 0, secrets: SharedSecrets | None = None
    ) -> None:
        """term: of the coordinator; each later one of the cluster has a higher one. secrets: sent to workers whenever
        they are replaced."""
        self._secrets = secrets
        self._times = times
        self._pool = SlotPool()
        self._server = ControlServer(cluster, times, self._on_event, term=term)
        self._holders: dict[str, SlotHolder] = {}
        self._by_slot: dict[str, str] = {}
        self._workers: dict[str, messages.Register] = {}
        self._loads: dict[str, messages.WorkerLoad] = {}
        self._texts_asked: dict[str, asyncio.Future[str]] = {}
        self._retiring: dict[tuple[str, int], _Retiring] = {}
        self._ending: set[str] = set()
        """Connected workers that are going to end, or have ended."""
        self._released: set[str] = set()
        """Workers that are to end. Their ids are not used again."""
        self._source: WorkerSource | None = None
        self.workers_lost = 0
        """How many connected workers were lost, without those that left, were released, or had said that they end."""

    async def start(self, host: str, port: int, token: str, tls: TlsFiles | None = None) -> int:
        """Listens for workers; returns the port."""
        if self._secrets is not None:
            loop = asyncio.get_running_loop()

            def on_replaced() -> None:
                loop.call_soon_threadsafe(self._send_secrets, self._workers)

            self._secrets.watch(on_replaced)
        return await self._server.start(host, port, token, tls)

    @property
    def workers_connected(self) -> int:
        """How many workers are connected now."""
        return len(self._workers)

    async def stop(self, *, workers: bool) -> None:
        """Closes every stream. With `workers`, asks the workers to end before that."""
        if self._secrets is not None:
            self._secrets.watch(None)
        if workers:
            for worker in self._workers:
                self._server.send(worker, messages.StopWorker())
        await self._server.stop()

    def provision_by(self, source: WorkerSource) -> None:
        """Lets the source make the workers from now on."""
        self._source = source

    # ---- requests of jobs ----------------------------------------------------------------------------------------

    def join(self, job: str, holder: SlotHolder) -> None:
        """Routes messages about the job's slots to the holder from now on."""
        self._holders[job] = holder

    def leave(self, job: str) -> None:
        """Drops the holder and the pending request of a job that is over."""
        self._holders.pop(job, None)
        self._granted(self._pool.cancel_request(job))

    def request(self, job: str, attempt: int, count: int) -> None:
        """Requests slots. The holder's `granted` is called once `count` slots are free."""
        self._granted(self._pool.request(job, attempt, count))
        self._demand_changed()

    def cancel_request(self, job: str) -> None:
        """Withdraws the job's pending request."""
        self._granted(self._pool.cancel_request(job))

    def send(self, slot: PooledSlot, message: messages.ToSlot) -> None:
        """Sends a slot a message."""
        self._server.send(slot.worker, codec.slot_command(slot.slot, message))

    def give_back(self, job: str, attempt: int) -> None:
        """Returns granted slots to which nothing was deployed."""
        for slot in self._pool.held_by(job, attempt):
            self._by_slot.pop(slot.slot, None)
        self._granted(self._pool.release_attempt(job, attempt, deployed=False))

    async def retire(self, job: str, attempt: int, slots: Sequence[PooledSlot], *, cancel: bool) -> None:
        """Ends an attempt's slots, and waits until they have exited. With `cancel`, sends CancelSlot first. Slots that
        do not exit in time are killed. Slots of a lost worker count as exited.
        """
        present = {slot.slot for slot in slots if slot.slot in self._by_slot}
        retiring = _Retiring(present)
        if not present:
            return
        self._retiring[job, attempt] = retiring
        own = [slot for slot in slots if slot.slot in present]
        try:
            if cancel:
                for slot in own:
                    self.send(slot, messages.CancelSlot())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout((self._times.cancel + KILL_AFTER_CANCEL_MS) / 1000):
                    await retiring.gone.wait()
            for slot in own:
                # the slot did not exit in time: it hangs in user code or in a client library
                if slot.slot in retiring.slots:
                    LOG.warning("slot %s did not leave attempt %d of job %s: killed", slot.slot, attempt, job)
                    self._server.send(slot.worker, messages.KillSlot(slot.slot))
            # bounded too: a worker that does not respond will count as lost, and its slots exit when their lease
            # expires
            if retiring.slots:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(KILL_AFTER_CANCEL_MS / 1000):
                        await retiring.gone.wait()
        finally:
            self._retiring.pop((job, attempt), None)
            self._granted(self._pool.release_attempt(job, attempt))

    # ---- requests of the provisioner -----------------------------------------------------------------------------

    def release(self, worker: str) -> None:
        """Grants no slot of an idle worker any more, and lets a worker that is not connected never join again."""
        self._released.add(worker)
        self._granted(self._pool.drain(worker).grants)

    def drop(self, worker: str, reason: str) -> None:
        """Treats a connected worker, whose process has ended, as lost to jobs. No other coordinator could reach it."""
        self._ending.add(worker)
        self._server.drop(worker, reason)

    def drain(self, worker: str) -> None:
        """Has the jobs of a worker move to others, as if it had said that it is going to end."""
        if worker in self._workers:
            self._leaving(worker)

    def forget_released(self, known: Set[str]) -> None:
        """Forgets released workers, except those in `known`, which are still listed or connected."""
        self._released &= known

    def demand(self) -> Demand:
        """Returns what the jobs need, and the workers that can be granted."""
        return self._pool.demand()

    # ---- reads ---------------------------------------------------------------------------------------------------

    def view(self) -> PoolView:
        """Returns workers and slots."""
        return self._pool.view()

    def provisioning(self) -> ProvisioningView | None:
        """Returns the workers that are on their way; None: others start the workers."""
        return None if self._source is None else self._source.view()

    @property
    def slots_max(self) -> int:
        """The slots of the cluster, or of the largest one that it becomes if jobs need them."""
        own = self.provisioning()
        return max(self._pool.view().slots_total, 0 if own is None else own.slots_max)

    def registered(self, worker: str) -> messages.Register | None:
        """Returns a worker's registration."""
        return self._workers.get(worker)

    def load(self, worker: str) -> messages.WorkerLoad | None:
        """Returns what a worker used when it last reported; None: it has not reported yet."""
        return self._loads.get(worker)

    async def stacks(self, worker: str) -> str:
        """Returns the stacks of a worker's threads and of its slots'. Raises UserError, ExternalError."""
        return await self._text(worker, messages.DumpStacks)

    async def logs(self, worker: str) -> str:
        """Returns the newest lines of a worker and of its slots. Raises UserError, ExternalError."""
        return await self._text(worker, messages.ReadLogs)

    async def _text(self, worker: str, message: type[messages.DumpStacks | messages.ReadLogs]) -> str:
        """Asks a worker for a text, and waits for it."""
        if worker not in self._workers:
            known = ", ".join(sorted(self._workers)) or "none"
            raise UserError(f"no worker {worker!r} is registered", remedy=f"these are: {known}")
        request = secrets.token_hex(8)
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._texts_asked[request] = answer
        try:
            self._server.send(worker, message(request))
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                return await answer
        except TimeoutError as error:
            text = f"worker {worker} did not answer within {ANSWER_SECONDS_MAX:.0f} s"
            raise ExternalError(text, remedy="it may be suspended, or cut off", retry=True) from error
        finally:
            del self._texts_asked[request]

    # ---- events of workers ---------------------------------------------------------------------------------------

    def _on_event(self, event: WorkerEvent) -> None:
        match event:
            case WorkerConnected(worker) if worker in self._released:
                # it was cut off, and its substitute has started
                LOG.info("worker %s has joined again, and is to end", worker)
                self._server.send(worker, messages.StopWorker())
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
                # a worker may have missed a replacement while it was cut off
                self._send_secrets([worker])
                if register.draining:
                    self._leaving(worker)
            case WorkerMessage(worker, message):
                self._on_message(worker, message)
            case WorkerDisconnected(worker, reason, clean):
                LOG.log(logging.INFO if clean else logging.WARNING, "worker %s is gone: %s", worker, reason)
                was_connected = worker in self._workers
                self._workers.pop(worker, None)
                self._loads.pop(worker, None)
                if was_connected and not clean and not self._is_expected_to_go(worker):
                    self.workers_lost += 1
                self._ending.discard(worker)
                self._changed(self._pool.worker_lost(worker), f"worker {worker} is lost: {reason}", worker)
            case _:
                assert_never(event)
        if not isinstance(event, WorkerMessage):
            self._demand_changed()

    def _is_expected_to_go(self, worker: str) -> bool:
        return worker in self._released or worker in self._ending

    def _send_secrets(self, workers: Iterable[str]) -> None:
        newest = {} if self._secrets is None else self._secrets.newest()
        for worker in list(workers):
            for name, content in newest.items():
                self._server.send(worker, messages.ReplaceSecret(name, content))

    def _demand_changed(self) -> None:
        if self._source is not None:
            self._source.demand_changed()

    def _on_message(self, worker: str, message: messages.FromWorker) -> None:
        match message:
            case messages.SlotUp(info):
                self._changed(self._pool.slot_up(worker, info), "", worker)
            case messages.SlotDown(slot, reason, _clean, domain):
                self._gone(slot)
                self._changed(self._pool.slot_down(slot), f"slot {slot}: {reason}", worker, domain)
            case messages.SlotMessage(slot, payload):
                holder = self._holders.get(self._by_slot.get(slot, ""))
                if holder is not None:
                    holder.slot_message(slot, payload)
            case messages.WorkerDraining():
                self._leaving(worker)
            case messages.WorkerLoad():
                self._loads[worker] = message
            case messages.Stacks(request, text) | messages.Logs(request, text):
                answer = self._texts_asked.get(request)
                if answer is not None and not answer.done():
                    answer.set_result(text)
            case messages.Register() | messages.Heartbeat() | messages.WorkerLeaving():
                pass
            case _:
                assert_never(message)

    def _leaving(self, worker: str) -> None:
        LOG.info("worker %s is going to end: its jobs move to others", worker)
        self._ending.add(worker)
        leaving = self._pool.leave(worker)
        for held in leaving.held:
            holder = self._holders.get(held.job)
            if holder is not None:
                holder.slot_leaving(held.attempt, held.slot, worker)
        self._granted(leaving.grants)
        self._demand_changed()

    def _changed(self, changed: Changed, reason: str, worker: str, domain: str | None = None) -> None:
        for slot in changed.strangers:
            self._server.send(worker, messages.KillSlot(slot))
        for lost in changed.lost:
            self._gone(lost.slot)
            holder = self._holders.get(lost.job)
            if holder is not None:
                failure = messages.Failure(reason, domain or Domain.EXTERNAL, retry=True, worker=lost.worker)
                holder.slot_lost(lost.attempt, lost.slot, failure)
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
                # the job ended between its request and the grant: the slots go back to the pool, for other jobs
                self._granted(self._pool.release_attempt(grant.job, grant.attempt, deployed=False))
                continue
            for slot in grant.slots:
                self._by_slot[slot.slot] = grant.job
            holder.granted(grant.attempt, grant.slots)
