"""What a listener says to callers that are no Connection: strangers, nonsense, and one that only ever pings."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator

import pytest

from headrace.core.errors import HeadraceError, InternalError
from headrace.exchange import link
from headrace.exchange.channel import ChannelBounds, Mailbox
from headrace.exchange.handshake import MAGIC, Greeting, receive_answer, receive_exactly, send_greeting
from headrace.exchange.transport import Identity, LinkTimes, Listener
from headrace.exchange.wire import HEADER, FrameType
from support.running import WAIT_SECONDS, wait_until
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
    mailbox = Mailbox(1, ChannelBounds(), merge_rows_max=1_000)
    listener.serve(THERE, {"t": mailbox}, lost.append)
    try:
        with socket.create_connection(listener.address[:2], timeout=WAIT_SECONDS) as sock:
            yield sock
    finally:
        listener.close()


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
    send_greeting(stranger, Greeting(HERE, 1))
    assert receive_answer(stranger) is None
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
    send_greeting(stranger, Greeting(HERE, 1))
    assert receive_answer(stranger) is None
    for _ in range(10):
        clock.step_ms(TIMES.lost_ms // 5)
        assert receive_exactly(stranger, len(ping)) == ping
        stranger.sendall(ping)
    stranger.sendall(HEADER.pack(0, FrameType.BYE, 0))
    stranger.shutdown(socket.SHUT_WR)
    read_to_the_end(stranger)
    assert not lost
