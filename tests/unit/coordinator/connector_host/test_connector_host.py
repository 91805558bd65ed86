"""A connector host as the coordinator starts it: what becomes of a start that nobody waits for any more."""

from __future__ import annotations

import asyncio
import os
import socket
import threading

import pytest

from headrace.coordinator.connector_host.connector_host import ConnectorHost
from headrace.processes.child import Child
from headrace.processes.order import ProcessOrder

WAIT_SECONDS = 60.0


class RunningChild:
    """Never ends."""

    pid = 4711

    def poll(self) -> int | None:
        """It runs."""
        return None

    def wait(self, timeout_s: float | None = None) -> int | None:
        """It runs."""
        return None

    def kill(self) -> None:
        """Nobody does."""
        raise AssertionError("a child that is not wanted sees its pipe closed")


class SlowStarter:
    """Starts once it is let; the child's end is `theirs` from then on."""

    def __init__(self) -> None:
        self.begun, self.let = threading.Event(), threading.Event()
        self.theirs: socket.socket | None = None

    def ready(self) -> bool:
        """Not without waiting."""
        return False

    def start(self, order: ProcessOrder) -> Child:
        """Waits, then keeps a duplicate of the descriptor, as a process does."""
        self.begun.set()
        assert self.let.wait(WAIT_SECONDS)
        self.theirs = socket.socket(fileno=os.dup(order.keep[0]))
        return RunningChild()

    def close(self) -> None:
        """Nothing runs."""


def test_the_child_of_a_cancelled_start_is_told_to_leave() -> None:
    starter = SlowStarter()

    async def test() -> None:
        starting = asyncio.create_task(ConnectorHost.start("0123456789ab", starter=starter))
        await asyncio.to_thread(starter.begun.wait, WAIT_SECONDS)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        starter.let.set()
        while starter.theirs is None:
            await asyncio.sleep(0.01)
        starter.theirs.settimeout(WAIT_SECONDS)
        assert await asyncio.to_thread(starter.theirs.recv, 1) == b"", "its pipe is closed: it leaves"
        starter.theirs.close()

    asyncio.run(test())
