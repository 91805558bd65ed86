"""A coordinator's control server without a coordinator: in a thread with a loop of its own, remembering its events."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

from headrace.rpc.messages import SlotDown, SlotInfo, SlotUp, ToWorker
from headrace.rpc.server import ControlServer
from headrace.rpc.sessions.sessions import WorkerConnected, WorkerDisconnected, WorkerEvent, WorkerMessage
from headrace.rpc.time_settings import ClusterTimes
from headrace.tls.files import TlsFiles
from support.patience import CONTROL_TIMES, WAIT_SECONDS

TOKEN = "the cluster's secret"

_Answer = TypeVar("_Answer")


class ServerInThread:
    """`with ServerInThread() as server`: listens at `server.port`; `events` grows as they come."""

    def __init__(
        self,
        times: ClusterTimes = CONTROL_TIMES,
        port: int = 0,
        token: str = TOKEN,
        tls: TlsFiles | None = None,
        *,
        term: int = 0,
    ) -> None:
        self.term = term
        self.times = times
        self.port = port
        self.token = token
        self.tls = tls
        self.events: list[WorkerEvent] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="control-server")

    def __enter__(self) -> ServerInThread:
        self._thread.start()
        self.port = self.call(self._start())
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.stop()

    async def _start(self) -> int:
        self.server = ControlServer("test-cluster", self.times, self.events.append, term=self.term)
        return await self.server.start("127.0.0.1", self.port, self.token, self.tls)

    def call(self, coroutine: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Runs it in the server's loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(WAIT_SECONDS)

    def send(self, worker: str, message: ToWorker) -> None:
        self._loop.call_soon_threadsafe(self.server.send, worker, message)

    def stop(self) -> None:
        if self._thread.is_alive():
            self.call(self.server.stop())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def connected(self) -> list[WorkerConnected]:
        return [event for event in self.events if isinstance(event, WorkerConnected)]

    def lost(self) -> list[WorkerDisconnected]:
        return [event for event in self.events if isinstance(event, WorkerDisconnected)]

    def said(self) -> list[Any]:
        return [event.message for event in self.events if isinstance(event, WorkerMessage)]

    def slots(self) -> dict[str, SlotInfo]:
        """Slots that are up, by the newest connection's words; busy ones included."""
        up: dict[str, SlotInfo] = {}
        for event in list(self.events):
            match event:
                case WorkerConnected(_, register):
                    up = {info.slot: info for info in (*register.idle, *register.busy)}
                case WorkerMessage(_, SlotUp(info)):
                    up[info.slot] = info
                case WorkerMessage(_, SlotDown(slot)):
                    up.pop(slot, None)
                case WorkerDisconnected():
                    up = {}
                case _:
                    pass
        return up
