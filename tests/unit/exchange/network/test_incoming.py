"""What a listener says to callers that are no Connection: strangers, nonsense, and one that only ever pings."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from headrace.core.errors import HeadraceError, InternalError
from headrace.core.signals import Watermark
from headrace.exchange.mailbox import ChannelBounds, Mailbox
from headrace.exchange.network import incoming, link
from headrace.exchange.network.handshake import MAGIC, HandshakeSocket, Identity, introduce
from headrace.exchange.network.incoming import Listener
from headrace.exchange.network.link import LinkTimes
from headrace.exchange.network.outgoing import Connection
from headrace.exchange.network.wire import HEADER, FrameType
from support.processes.running import WAIT_SECONDS, wait_until
from support.stepped_clock import SteppedClock

HERE, THERE = Identity("job", 1, "token", 0), Identity("job", 1, "token", 1)
TIMES = LinkTimes(ping_ms=40, lost_ms=240_000)


@pytest.fixture(name="lost")
def losses() -> list[HeadraceError]:
    """What the listener was told."""
    return []


@pytest.fixture(name="clock")
def clock_of_links(monkeypatch: pytest.MonkeyPatch) -> SteppedClock:
    """By which links judge silence: a machine that stands still makes none."""
    clock = SteppedClock()
    monkeypatch.setattr(link, "time", clock)
    return clock


@pytest.fixture
def stranger(lost: list[HeadraceError], clock: SteppedClock) -> Iterator[socket.socket]:
    """A plain socket, connected to a slot that serves."""
    listener = Listener("127.0.0.1", None, times=TIMES)
    mailbox = Mailbox((0,), ChannelBounds(), merge_rows_max=1_000)
    listener.serve(THERE, {"t": mailbox}, lost.append)
    try:
        with socket.create_connection(listener.address[:2], timeout=WAIT_SECONDS) as sock:
            yield sock
    finally:
        listener.close()


def let_in(sock: socket.socket) -> None:
    assert introduce(HandshakeSocket(sock, WAIT_SECONDS), HERE, 1) is None
    sock.settimeout(WAIT_SECONDS)
    # its link has begun to look at the clock
    wait_until(lambda: any(thread.name == "exchange-slot 0" for thread in threading.enumerate()), "it is let in")


def receive_exactly(sock: socket.socket, count: int) -> bytes:
    return sock.recv(count, socket.MSG_WAITALL)


def read_to_the_end(sock: socket.socket) -> None:
    with contextlib.suppress(ConnectionResetError):
        while sock.recv(1_000):
            pass


@pytest.mark.parametrize("words", [b"GET / HTTP/1.1\r\n\r\n", struct.pack("<4sHI", MAGIC, 99, 0), b""])
def test_strangers_are_sent_away(stranger: socket.socket, lost: list[HeadraceError], words: bytes) -> None:
    stranger.sendall(words)
    with contextlib.suppress(OSError):  # it may have been sent away already
        stranger.shutdown(socket.SHUT_WR)
    read_to_the_end(stranger)
    assert not lost


@pytest.mark.parametrize(
    "nonsense", [HEADER.pack(0, 77, 0), HEADER.pack(5, 4, 8) + b"x" * 8, HEADER.pack(0, 1, 2) + b"{}"]
)
def test_a_malformed_frame_is_a_loss(stranger: socket.socket, lost: list[HeadraceError], nonsense: bytes) -> None:
    let_in(stranger)
    stranger.sendall(nonsense)
    read_to_the_end(stranger)
    wait_until(lambda: bool(lost), "nonsense was taken")
    (loss,) = lost
    assert isinstance(loss, InternalError)


def test_a_quiet_connection_is_kept_by_pings(
    stranger: socket.socket, lost: list[HeadraceError], clock: SteppedClock
) -> None:
    """Longer than a silence that would be a loss, nothing but pings goes to and fro."""
    ping = HEADER.pack(0, FrameType.PING, 0)
    let_in(stranger)
    for _ in range(10):
        clock.step_ms(TIMES.lost_ms // 5)
        assert receive_exactly(stranger, len(ping)) == ping
        stranger.sendall(ping)
    stranger.sendall(HEADER.pack(0, FrameType.BYE, 0))
    stranger.shutdown(socket.SHUT_WR)
    read_to_the_end(stranger)
    assert not lost


@contextlib.contextmanager
def idle(address: tuple[str, int], count: int) -> Iterator[list[socket.socket]]:
    """Connections of a stranger that says nothing and closes nothing."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(address, timeout=WAIT_SECONDS)) for _ in range(count)]


def doors() -> int:
    return sum(thread.name == "exchange-from" for thread in threading.enumerate())


def test_five_hundred_idle_strangers_keep_no_slot_out_and_hold_few_threads() -> None:
    listener = Listener("127.0.0.1", None)
    mailbox = Mailbox((0,), ChannelBounds(), merge_rows_max=1_000)
    listener.serve(THERE, {"t": mailbox}, lambda loss: None)
    try:
        with idle(listener.address[:2], 500):
            connection = Connection(listener.address, HERE, 1, round(WAIT_SECONDS * 1_000), lambda loss: None)
            connection.outlet("t", 0).put(Watermark(1))
            assert mailbox.take() == [Watermark(1)]
            wait_until(lambda: doors() <= incoming.UNPROVEN_MAX, "strangers hold threads")
            connection.close()
    finally:
        listener.close()


def test_more_callers_than_the_door_holds_all_get_in() -> None:
    """They come before their callee is deployed, and those that have to leave come again."""
    slots = incoming.UNPROVEN_MAX + 20
    listener = Listener("127.0.0.1", None)
    connections: list[Connection] = []

    def call(slot: int) -> None:
        caller = Identity("job", 1, "token", slot)
        connections.append(Connection(listener.address, caller, 1, round(WAIT_SECONDS * 1_000), lambda loss: None))

    threads = [threading.Thread(target=call, args=(slot,)) for slot in range(slots)]
    try:
        for thread in threads:
            thread.start()
        wait_until(lambda: doors() >= incoming.UNPROVEN_MAX // 2, "nobody called")
        listener.serve(THERE, {}, lambda loss: None)
        for thread in threads:
            thread.join()
        assert len(connections) == slots
    finally:
        for connection in connections:
            connection.close()
        listener.close()


def test_a_greeting_that_comes_byte_by_byte_is_not_waited_for(
    stranger: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming, "HANDSHAKE_S", 0.2)

    def ended() -> bool:
        try:
            slow.sendall(MAGIC[:1])
            return not slow.recv(1, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    with socket.create_connection(stranger.getpeername(), timeout=WAIT_SECONDS) as slow:
        slow.sendall(struct.pack("<4sHI", MAGIC, 2, 4_000))
        wait_until(ended, "the greeting is waited for", seconds=60)
