"""The pipe between a supervisor and a slot: frames of bytes over an inherited socket pair, heartbeats both ways.

    frame   (`core.network.frames`) time of writing (8 bytes, big-endian; ns of the host's monotonic clock), message
    beat    a heartbeat: a frame without a message

Each end has a thread that writes; beats overtake queued messages. A beat carries its time, so a reader that was frozen
recognises the beats that waited in its pipe as old. The owner of an end reads. This module does not decode messages:
the slot's first one is its SlotInfo, all others are FromSlot and ToSlot.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import deque
from contextlib import suppress
from typing import NamedTuple

from headrace.core.errors import InternalError
from headrace.core.network.frames import encode_frame, receive_frame

FRAME_BYTES_MAX = 80 << 20
"""Greater than the limit of the control plane's stream, so that every message received there fits here."""
QUEUED_FRAMES_MAX = 10_000
QUEUED_BYTES_MAX = 128 << 20
_SENT_NS = struct.Struct(">Q")


class PipeFullError(Exception):
    """The queue is full, because the other end does not read."""


class Frame(NamedTuple):
    """A frame that the other end wrote. sent_ns: when it was written (monotonic); message: empty in a beat."""

    sent_ns: int
    message: bytes


class SlotPipe:
    """One end of a pipe. Any thread may call `send*`, one thread calls `receive`. beat_s: interval of heartbeats."""

    def __init__(self, sock: socket.socket, beat_s: float) -> None:
        self._sock = sock
        self._beat_s = beat_s
        self._changed = threading.Condition()
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        self._writing = False
        self._closed = False
        self._writer = threading.Thread(target=self._write, name="slot-pipe", daemon=True)
        self._writer.start()

    def send(self, message: bytes) -> None:
        """Queues a message; waits for room. Does nothing on a closed pipe.

        Raises InternalError for a message that is too large.
        """
        _check_size(_SENT_NS.size + len(message))
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._has_room(message))
            self._enqueue(message)

    def send_nowait(self, message: bytes) -> None:
        """Queues a message; never waits. Does nothing on a closed pipe.

        Raises PipeFullError if the queue is full, InternalError for a message that is too large.
        """
        _check_size(_SENT_NS.size + len(message))
        with self._changed:
            if not self._closed and not self._has_room(message):
                raise PipeFullError
            self._enqueue(message)

    def receive(self) -> Frame | None:
        """Waits for the next frame; returns None once either end is closed."""
        with suppress(OSError):
            body = receive_frame(self._sock.recv_into, bytes_max=FRAME_BYTES_MAX)
            if body is not None and len(body) >= _SENT_NS.size:
                (sent_ns,) = _SENT_NS.unpack_from(body)
                return Frame(sent_ns, body[_SENT_NS.size :])
        return None

    def flush(self, timeout_s: float) -> bool:
        """Waits until every queued message is written. Returns False if that took longer than `timeout_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closed or not (self._queue or self._writing), timeout_s)

    def close(self) -> None:
        """Closes this end: the other end's `receive` returns None, queued messages are dropped. Idempotent."""
        with self._changed:
            self._closed = True
            self._queue.clear()
            self._bytes = 0
            self._changed.notify_all()
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        if self._writer is not threading.current_thread():
            self._writer.join()
        self._sock.close()

    def _has_room(self, message: bytes) -> bool:
        fits = len(self._queue) < QUEUED_FRAMES_MAX and self._bytes + len(message) <= QUEUED_BYTES_MAX
        return fits or not self._queue

    def _enqueue(self, message: bytes) -> None:
        assert message, "a frame without a message is a beat"
        if not self._closed:
            self._queue.append(message)
            self._bytes += len(message)
            self._changed.notify_all()

    def _write(self) -> None:
        beat_at_s = time.monotonic()
        with suppress(OSError):
            while True:
                message = self._next(beat_at_s)
                if message is None:
                    return
                if not message:
                    beat_at_s = time.monotonic() + self._beat_s
                self._sock.sendall(_framed(time.monotonic_ns(), message))
        with self._changed:
            # the other end is gone: senders that wait for room and callers of `flush` return
            self._closed = True
            self._changed.notify_all()

    def _next(self, beat_at_s: float) -> bytes | None:
        """Waits for the next frame to write: a message, or b"" if a beat is due. None: the pipe is closed."""
        with self._changed:
            self._writing = False
            self._changed.notify_all()
            while not self._closed:
                left_s = beat_at_s - time.monotonic()
                if left_s <= 0:
                    return b""
                if self._queue:
                    message = self._queue.popleft()
                    self._bytes -= len(message)
                    self._writing = True
                    return message
                self._changed.wait(left_s)
        return None


def _check_size(size: int) -> None:
    if size > FRAME_BYTES_MAX:
        raise InternalError(f"a frame of {size} bytes between a worker and its slot: at most {FRAME_BYTES_MAX} pass")


def _framed(sent_ns: int, message: bytes) -> bytes:
    return encode_frame(_SENT_NS.pack(sent_ns) + message, bytes_max=FRAME_BYTES_MAX)
