"""One authenticated socket between two slots, from the end of the handshake to the goodbye (a BYE or CANCEL frame):
sends frames, receives frames, sends pings, detects a lost peer.

Both ends behave the same. `run` reads in its own thread, and waits for nothing but the socket. So only the network or a
suspended peer can block a sender. A slow reader cannot: credits limit the sender to the reader's rate.

    connected ──close()──> sent BYE ──peer's BYE, end of stream──> ended: on purpose
        │    └─peer's BYE or CANCEL: sends BYE─────────────────────────^
        └──end of stream, reset, silence, malformed frame──> ended: lost

After `ping_ms` without an outgoing frame the link sends a PING. After `lost_ms` without an incoming byte it counts the
peer as lost. So it detects a network partition and a suspended peer.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from headrace.core.errors import ExternalError, HeadraceError, InternalError
from headrace.exchange.mailbox import TaskCancelledError
from headrace.exchange.network.stream import stream_of
from headrace.exchange.network.wire import HEADER, Buffer, Frame, FrameType, Header, decode_header, encode_header

OnFrame = Callable[[Header, Buffer], None]
OnEnd = Callable[[HeadraceError | None], None]


@dataclass(frozen=True, slots=True)
class LinkTimes:
    """In ms. ping_ms: time without an outgoing frame before a ping; lost_ms: time without an incoming byte after which
    the peer is lost; linger_ms: time limit of a goodbye."""

    ping_ms: int = 2_000
    lost_ms: int = 15_000
    linger_ms: int = 2_000


class _EndOfStreamError(Exception):
    """The peer closed its end."""


class Link:
    """An authenticated connection. `peer`: its name in error messages.

    on_frame  the reading thread calls it for each frame except PING, CANCEL and BYE; it must not block
    on_end    the reading thread calls it once, with the error of a loss, or None after a goodbye
    """

    def __init__(self, sock: socket.socket, peer: str, times: LinkTimes, on_frame: OnFrame, on_end: OnEnd) -> None:
        self._stream = stream_of(sock, max(min(times.ping_ms, times.lost_ms) // 4, 1))
        self._frames = FrameReader(self._receive)
        self.peer = peer
        self._times = times
        self._on_frame = on_frame
        self._on_end = on_end
        self._sending = threading.Lock()
        self._ended = threading.Event()
        self._loss: HeadraceError | None = None
        self._closing = False
        self._said_bye = False
        self._peer_left = False
        self._heard_s = self._sent_s = time.monotonic()

    @property
    def ended(self) -> bool:
        """Whether the link no longer sends or receives."""
        return self._ended.is_set()

    # ---- sending -----------------------------------------------------------------------------------------------------

    def send(self, channel: int, frame: Frame) -> None:
        """Writes one frame; for any thread except the reading one. Raises the error of a loss, or TaskCancelledError
        after a goodbye of either end."""
        head = encode_header(channel, frame)
        try:
            with self._sending:
                if self._said_bye:
                    raise self._loss or TaskCancelledError()
                self._write(head, frame.payload)
        except OSError:
            # The write failed because the peer sent a goodbye at the same time and closed, or because the connection
            # was lost. Only the reading thread can distinguish these, so wait until it has ended the link.
            self._shut(socket.SHUT_RDWR)
            self._ended.wait()
            raise (self._loss or TaskCancelledError()) from None

    def send_if_up(self, channel: int, frame: Frame) -> None:
        """Writes a frame that is needed only while the link is up: a credit. Raises nothing if the link is down."""
        head = encode_header(channel, frame)
        try:
            with self._sending:
                if not self._said_bye:
                    self._write(head, frame.payload)
        except OSError:
            self._shut(socket.SHUT_RDWR)

    def _write(self, head: bytes, payload: Buffer) -> None:
        parts = [memoryview(head), memoryview(payload)] if len(payload) else [memoryview(head)]
        moved_s = time.monotonic()
        while parts:
            try:
                sent = self._stream.send(parts)
            except BlockingIOError:
                # a live peer always reads its socket, because its reading thread waits for nothing else
                if (time.monotonic() - moved_s) * 1_000 > self._times.lost_ms:
                    raise TimeoutError from None
                continue
            moved_s = time.monotonic()
            while parts and sent >= len(parts[0]):
                sent -= len(parts.pop(0))
            if parts and sent:
                parts[0] = parts[0][sent:]
        self._sent_s = moved_s

    def _say_goodbye(self, kind: FrameType, wait_s: float) -> None:
        """Sends BYE or CANCEL as the last frame. Does nothing if another thread holds the sending lock for longer than
        `wait_s`."""
        if not self._sending.acquire(timeout=wait_s):
            return
        try:
            if not self._said_bye and not self.ended:
                self._said_bye = True
                self._write(encode_header(0, Frame(kind)), b"")
                # half-close: the peer's frames up to its own BYE can still arrive
                self._stream.shutdown(socket.SHUT_WR)
        except OSError:
            self._shut(socket.SHUT_RDWR)
        finally:
            self._sending.release()

    def close(self, kind: FrameType = FrameType.BYE) -> None:
        """Sends a goodbye and waits until the link has ended; for any thread except the reading one. Idempotent."""
        self._closing = True
        linger_s = self._times.linger_ms / 1_000
        self._say_goodbye(kind, linger_s)
        if not self._ended.wait(linger_s):
            self._shut(socket.SHUT_RDWR)
            self._ended.wait()

    def _shut(self, how: int) -> None:
        try:
            self._stream.shutdown(how)
        except OSError:
            return  # it is down already

    # ---- reading -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Reads until the link ends, then closes the socket; in its own thread."""
        loss: HeadraceError | None = None
        try:
            while True:
                self._read_frame()
        except (_EndOfStreamError, OSError) as error:
            loss = self._lost(str(error) or "it ended without a goodbye", error)
        except HeadraceError as error:
            loss = error
        except (
            BaseException
        ) as error:  # last resort of a thread: senders must learn of any failure (also of polars' panics)
            loss = InternalError(f"a frame of {self.peer} could not be dealt with: {error!r}")
            loss.__cause__ = error
        # after a goodbye of either side, resets and missing bytes are normal
        if self._closing or self._peer_left:
            loss = None
        self._loss = loss
        self._shut(socket.SHUT_RDWR)
        with self._sending:
            self._stream.close()
            self._said_bye = True
        self._ended.set()
        self._on_end(loss)

    def _read_frame(self) -> None:
        header, payload = self._frames.read()
        if header.type in (FrameType.BYE, FrameType.CANCEL):
            self._peer_left = True
            # the reading thread sends the answer itself, because the peer can block every other thread
            self._say_goodbye(FrameType.BYE, self._times.linger_ms / 1_000)
        elif header.type is not FrameType.PING:
            self._on_frame(header, payload)
        self._ping_if_due()

    def _receive(self, view: memoryview, *, whole: bool) -> int:
        """See `frame_reader.Receive`. Sends pings, and detects a silent peer, while it waits."""
        while True:
            try:
                count = self._stream.recv_into(view, whole=whole)
            except BlockingIOError:
                # Check once more: this process may have been suspended after an empty read, while the peer sent bytes.
                # Then the time since the last byte is long, although the peer is alive.
                if self._silent_for_long() and not self._stream.something_came():
                    raise self._lost(f"nothing was heard of it for {self._times.lost_ms:,} ms", None) from None
                self._ping_if_due()
                continue
            if not count:
                raise _EndOfStreamError
            self._heard_s = time.monotonic()
            return count

    def _silent_for_long(self) -> bool:
        return (time.monotonic() - self._heard_s) * 1_000 > self._times.lost_ms

    def _ping_if_due(self) -> None:
        now_s = time.monotonic()
        if (now_s - self._sent_s) * 1_000 < self._times.ping_ms:
            return
        # If another thread holds the lock it is already sending; if the socket buffer is full, the peer has unread data
        # and needs no ping.
        if not self._sending.acquire(blocking=False):
            return
        try:
            if not self._said_bye:
                head = encode_header(0, Frame(FrameType.PING))
                sent = self._stream.send_now(head)
                # part of the header may be on the wire already: the rest must follow before any other frame
                if sent < len(head):
                    self._write(head[sent:], b"")
                self._sent_s = now_s
        except BlockingIOError:
            return
        finally:
            self._sending.release()

    def _lost(self, what: str, cause: BaseException | None) -> ExternalError:
        error = ExternalError(f"the connection to {self.peer} was lost: {what}", retry=True)
        error.__cause__ = cause
        return error


# ---- the reader of frames --------------------------------------------------------------------------------------------
# Reads frames from a byte stream through a small buffer: one system call for all small frames that have arrived.
#
# A payload that is not in the buffer as a whole is received straight into its own memory.

_BUFFER_BYTES = 16 * 1024
"""A frame of many rows is far larger, and only its first bytes are copied once more."""


class Receive(Protocol):
    """Reads bytes of the stream, at least one; `whole`: until the view is full, as far as that can be waited for.

    Raises the error that ends the stream.
    """

    def __call__(self, view: memoryview, *, whole: bool) -> int:
        """Returns how many bytes were read."""
        ...


class FrameReader:
    """The frames of one stream, in order. Used by one thread."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._begin = self._end = 0

    def read(self) -> tuple[Header, Buffer]:
        """The next frame. Its payload is its own memory, aligned to 64 bytes. Raises InternalError for an invalid
        header."""
        self._fill(HEADER.size)
        header = decode_header(self._buffer[self._begin : self._begin + HEADER.size])
        self._begin += HEADER.size
        return header, self._payload(header.length)

    def _fill(self, count: int) -> None:
        """Receives until the buffer has `count` bytes."""
        rest = self._end - self._begin
        if rest >= count:
            return
        self._buffer[:rest] = bytes(self._buffer[self._begin : self._end])
        self._begin, self._end = 0, rest
        while self._end < count:
            self._end += self._receive(self._buffer[self._end :], whole=False)

    def _payload(self, length: int) -> memoryview:
        if not length:
            return memoryview(b"")
        # allocated by Arrow: aligned to 64 bytes, so that columns refer to it without a copy
        payload = memoryview(pa.allocate_buffer(length)).cast("B")
        filled = min(length, self._end - self._begin)
        payload[:filled] = self._buffer[self._begin : self._begin + filled]
        self._begin += filled
        while filled < length:
            filled += self._receive(payload[filled:], whole=True)
        return payload
