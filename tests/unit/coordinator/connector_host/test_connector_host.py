"""The coordinator's client of a connector host: a start that nobody waits for any more, and transient errors."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from headrace.client.output_models import DeadLettersRequest, RedriveRequest
from headrace.coordinator.connector_host import connector_host
from headrace.coordinator.connector_host.connector_host import ConnectorHost, HostTimes
from headrace.core.errors import ExternalError, InternalError
from headrace.core.network.frames import LENGTH_BYTES, decode_length, receive_frame
from headrace.execution.connector_messages import FRAME_BYTES_MAX, AnswerFrame, RequestFrame, framed
from headrace.processes.child import Child
from headrace.processes.order import ProcessOrder
from headrace.rpc.failure import failure_of

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


# ---- transient errors ------------------------------------------------------------------------------------------------

AWAY = ExternalError("the broker is away", retry=True)


class Peer:
    """The host process, in this one: fails the first requests, then answers. `asked`: all that were sent."""

    pid = 4711
    reason = "the test ends"

    def __init__(self, *failures: ExternalError) -> None:
        self.asked: list[str] = []
        self._failures = list(failures)
        self.connection, self._theirs = socket.socketpair()

    async def answer(self) -> None:
        reader, writer = await asyncio.open_connection(sock=self._theirs)
        while head := await reader.read(LENGTH_BYTES):
            length = decode_length(head, bytes_max=FRAME_BYTES_MAX)
            frame = RequestFrame.model_validate_json(await reader.readexactly(length))
            self.asked.append(frame.request.do)
            failure = failure_of(self._failures.pop(0)) if self._failures else None
            writer.write(framed(AnswerFrame(number=frame.number, failure=failure)))
        writer.close()

    def wait(self, timeout_s: float | None = None) -> bool:
        """It has ended."""
        return True

    def ending(self) -> Peer:
        """It has a reason."""
        return self


@asynccontextmanager
async def hosted(peer: Peer) -> AsyncIterator[ConnectorHost]:
    answering = asyncio.create_task(peer.answer())
    streams = await asyncio.open_connection(sock=peer.connection)
    host = ConnectorHost("0123456789ab", peer, streams, HostTimes())  # type: ignore[arg-type]
    yield host
    streams[1].close()
    await answering
    await host.died.wait()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector_host, "COMMIT_RETRY_S", 0.0)


def test_a_commit_is_retried_until_it_succeeds() -> None:
    async def test() -> None:
        peer = Peer(AWAY, AWAY)
        async with hosted(peer) as host:
            assert await host.commit(7, (), lambda: True) == ()
            assert peer.asked == ["commit"] * 3

    asyncio.run(test())


def test_a_fence_is_retried_as_long_as_it_is_wanted() -> None:
    async def test() -> None:
        peer, wanted = Peer(AWAY, AWAY, AWAY), [True, True, True]
        async with hosted(peer) as host:
            with pytest.raises(ExternalError, match="is away"):
                await host.fence({}, lambda: bool(wanted) and wanted.pop())
            assert peer.asked == ["fence"] * 2

    asyncio.run(test())


@pytest.mark.parametrize("error", [AWAY, ExternalError("the transaction is gone", retry=False)])
def test_an_error_is_raised_at_once_if_a_retry_is_not_wanted_or_does_not_help(error: ExternalError) -> None:
    async def test() -> None:
        peer = Peer(error)
        async with hosted(peer) as host:
            with pytest.raises(ExternalError):
                await host.commit(7, (), lambda: not error.retry)
            assert peer.asked == ["commit"]

    asyncio.run(test())
