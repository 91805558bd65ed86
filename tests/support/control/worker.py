"""A worker without slots at a control server, in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from headrace import __version__
from headrace.rpc.client import ClientHandlers, ControlClient, CoordinatorAccess
from headrace.rpc.messages import (
    Refused,
    Register,
    ToWorker,
)
from headrace.rpc.time_settings import ClusterTimes
from support.control.server import TOKEN, ServerInThread
from support.patience import CONTROL_TIMES
from support.processes.running import wait_until


@dataclass
class Worker:
    """A worker without slots: a client, and what it was told."""

    told: list[ToWorker] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    token: str = TOKEN
    registered: int = 0
    register: Register = field(default_factory=lambda: Register("w1", "127.0.0.1", os.getpid(), 2, __version__))

    def connect(self, address: str, times: ClusterTimes = CONTROL_TIMES) -> ControlClient:
        access = CoordinatorAccess(address, self.token)
        client = ControlClient(access, times, ClientHandlers(self.registering, self.told.append, self.refused.append))
        client.start()
        return client

    def registering(self) -> Register:
        self.registered += 1
        return self.register


@contextmanager
def connected(server: ServerInThread, worker: Worker, through: str = "") -> Iterator[ControlClient]:
    known = len(server.connected())
    client = worker.connect(through or server.address, server.times)
    try:
        wait_until(lambda: len(server.connected()) > known or bool(worker.refused), "the worker registers")
        yield client
    finally:
        client.close(0)
