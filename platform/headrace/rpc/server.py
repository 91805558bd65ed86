"""The coordinator's end of the control plane: one stream per worker, sessions that outlive a dropped stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.rpc.messages import ClusterTimes, FromWorker, Register, ToWorker


@dataclass(frozen=True, slots=True)
class WorkerConnected:
    """A worker has joined. What it had said before counts no more: its slots are those of `register`.

    Comes before everything else of that worker. A stream that dropped and came back in time is no event.
    """

    worker: str
    register: Register


@dataclass(frozen=True, slots=True)
class WorkerSaid:
    """A connected worker's word, each one once and in order. Registrations and heartbeats are not among them."""

    worker: str
    message: FromWorker


@dataclass(frozen=True, slots=True)
class WorkerDisconnected:
    """The worker is lost, or has left (`clean`). Said once for each `WorkerConnected`; nothing of it follows."""

    worker: str
    reason: str
    clean: bool


WorkerEvent = WorkerConnected | WorkerSaid | WorkerDisconnected


class ControlServer:
    """Serves workers in the running asyncio loop. `on_event` is called in that loop and must not block."""

    def __init__(self, cluster: str, times: ClusterTimes, on_event: Callable[[WorkerEvent], None]) -> None:
        self._cluster = cluster
        self._times = times
        self._on_event = on_event

    async def start(self, host: str, port: int, token: str) -> int:
        """Listens; port 0 takes a free one. Gives the port. Raises ExternalError when the address is taken."""
        raise NotImplementedError

    def send(self, worker: str, message: ToWorker) -> None:
        """Sends to a connected worker, never blocks. For one that is not connected (any more): nothing happens."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Ends all streams without an event. Idempotent."""
        raise NotImplementedError
