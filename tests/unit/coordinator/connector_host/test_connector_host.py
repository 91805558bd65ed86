"""A connector host as the coordinator starts it: what becomes of a start that nobody waits for any more."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Awaitable, Callable

import pytest

from headrace.client.output_models import DeadLettersRequest, RedriveRequest
from headrace.coordinator.connector_host.connector_host import ConnectorHost
from headrace.core.errors import InternalError
from headrace.core.network.frames import receive_frame
from headrace.execution.connector_messages import FRAME_BYTES_MAX, AnswerFrame, RequestFrame, framed
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


class EndedChild(RunningChild):
    """Ends at once; its socket is still served."""

    def poll(self) -> int | None:
        """It has ended."""
        return 0

    def wait(self, timeout_s: float | None = None) -> int | None:
        """It has ended."""
        return 0


class SlowStarter:
    """Starts once it is let; the child's end is `theirs` from then on."""

    def __init__(self, child: Child | None = None) -> None:
        self._child = child or RunningChild()
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
        return self._child

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


@pytest.mark.parametrize("call", ["audit", "letters", "resend"])
def test_an_answer_without_its_content_is_an_error(call: str) -> None:
    starter = SlowStarter(EndedChild())
    starter.let.set()

    def answer() -> None:
        assert starter.theirs is not None
        starter.theirs.setblocking(True)
        body = receive_frame(starter.theirs.recv_into, bytes_max=FRAME_BYTES_MAX)
        assert body is not None
        starter.theirs.sendall(framed(AnswerFrame(number=RequestFrame.model_validate_json(body).number)))

    async def test() -> None:
        host = await ConnectorHost.start("0123456789ab", starter=starter)
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "audit": lambda: host.audit("out", {}, 10),
            "letters": lambda: host.letters({}, DeadLettersRequest(node="in", limit=1)),
            "resend": lambda: host.resend({}, RedriveRequest(node="in", to="in", limit=1, yes=True)),
        }
        answering = asyncio.create_task(asyncio.to_thread(answer))
        with pytest.raises(InternalError, match="and its answer has no content"):
            await calls[call]()
        await answering
        assert starter.theirs is not None
        starter.theirs.close()
        await host.close()

    asyncio.run(test())
