"""A worker of slots without rows: `python -m support.clusters.rowless.worker headrace-worker --coordinator URL ..`.

The control plane's client, its messages, the registration and the replacement of slots are as in a worker; but slots
are objects of this process (`slot`), so that hundreds of them cost little. It has no leases: it is for clusters whose
coordinators die and are replaced, not for those that are cut off.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import signal
from pathlib import Path
from typing import assert_never

from headrace import __version__
from headrace.core.network.hosts import LOOPBACK
from headrace.rpc.client import ClientHandlers, ControlClient, CoordinatorAccess
from headrace.rpc.messages import (
    Address,
    DumpStacks,
    Heartbeat,
    KillSlot,
    ReadLogs,
    Refused,
    Register,
    Registered,
    ReplaceSecret,
    SlotCommand,
    SlotDown,
    SlotInfo,
    SlotMessage,
    SlotUp,
    StopWorker,
    ToWorker,
    WorkerLeaving,
)
from headrace.rpc.time_settings import times_from
from support.clusters.rowless.slot import RowlessSlot, now_ms
from support.clusters.rowless.subtasks import Plans

FLUSH_SECONDS = 10.0


class RowlessWorker:
    """One worker, in the event loop."""

    def __init__(self, worker: str, slots: int, access: CoordinatorAccess) -> None:
        self._worker = worker
        self._slots_max = slots
        self._plans = Plans()
        self._slots: dict[str, RowlessSlot] = {}
        self._due: dict[str, asyncio.TimerHandle] = {}
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        handlers = ClientHandlers(self._registration, self._on_message, self._on_refused)
        self._client = ControlClient(access, times_from(os.environ), handlers)

    async def run(self) -> None:
        """Runs until SIGTERM or the coordinator's StopWorker."""
        self._loop.add_signal_handler(signal.SIGTERM, self._ended.set)
        for _ in range(self._slots_max):
            self._start_slot()
        self._client.start()
        await self._ended.wait()
        self._client.send(WorkerLeaving())
        # in a thread: a registration that is under way needs this loop
        await asyncio.to_thread(self._client.close, FLUSH_SECONDS)

    # ---- in the client's thread --------------------------------------------------------------------------------------

    def _registration(self) -> Register:
        return asyncio.run_coroutine_threadsafe(self._registered(), self._loop).result()

    def _on_message(self, message: ToWorker) -> None:
        self._loop.call_soon_threadsafe(self._obey, message)

    def _on_refused(self, refused: Refused) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)

    # ---- in the loop -------------------------------------------------------------------------------------------------

    async def _registered(self) -> Register:
        idle = tuple(slot.info for slot in self._slots.values() if not slot.busy)
        busy = tuple(slot.info for slot in self._slots.values() if slot.busy)
        return Register(self._worker, LOOPBACK, os.getpid(), self._slots_max, __version__, idle, busy)

    def _obey(self, message: ToWorker) -> None:
        match message:
            case SlotCommand(name, payload):
                slot = self._slots.get(name)
                if slot is not None:
                    slot.receive(payload)
                    self._arm(slot)
            case KillSlot(name):
                self._end_slot(name, "killed on the coordinator's word", clean=False)
            case StopWorker():
                self._ended.set()
            case Registered() | Refused() | Heartbeat() | ReplaceSecret() | DumpStacks() | ReadLogs():
                pass
            case _:
                assert_never(message)

    def _start_slot(self) -> None:
        name = f"{self._worker}-{secrets.token_hex(4)}"
        info = SlotInfo(name, os.getpid(), Address(LOOPBACK, 1, ""))
        self._slots[name] = RowlessSlot(info, self._plans, lambda data: self._say(name, data), self._on_left)
        self._client.send(SlotUp(info))

    def _say(self, slot: str, data: bytes) -> None:
        self._client.send(SlotMessage(slot, data))

    def _on_left(self, slot: RowlessSlot, clean: bool) -> None:
        self._end_slot(slot.info.slot, "left" if clean else "its attempt failed", clean=clean)

    def _end_slot(self, name: str, reason: str, *, clean: bool) -> None:
        if self._slots.pop(name, None) is None:
            return
        if (due := self._due.pop(name, None)) is not None:
            due.cancel()
        self._client.send(SlotDown(name, reason, clean))
        self._start_slot()

    def _arm(self, slot: RowlessSlot) -> None:
        """Has the slot report when its next report is due."""
        name = slot.info.slot
        if name in self._due or slot.due_ms is None or name not in self._slots:
            return
        self._due[name] = self._loop.call_later(max(slot.due_ms - now_ms(), 0) / 1_000, self._on_due, slot)

    def _on_due(self, slot: RowlessSlot) -> None:
        self._due.pop(slot.info.slot, None)
        slot.tick()
        self._arm(slot)


async def _run(worker: str, slots: int, coordinator: str) -> None:
    token = Path(os.environ["HEADRACE_TOKEN_FILE"]).read_text().strip()
    await RowlessWorker(worker, slots, CoordinatorAccess(coordinator, token)).run()


def main() -> None:
    """The process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["headrace-worker"], help="as in a worker's command line")
    parser.add_argument("--coordinator", required=True)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--id", required=True)
    given = parser.parse_args()
    asyncio.run(_run(given.id, given.slots, given.coordinator))


if __name__ == "__main__":
    main()
