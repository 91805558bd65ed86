"""The pipe between a supervisor and a slot: protobuf frames over an inherited socket pair, and beats both ways.

A frame is its length (4 bytes, big endian) and a `SlotFrame` or `SupervisorFrame`. Each end has a thread that writes;
beats overtake what is queued and carry the time at which they are written. Reading belongs to whoever owns the end.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from google.protobuf.message import Message

FRAME_BYTES_MAX = 80 << 20
"""Above what a frame of the control plane's stream may have: what came over that passes here."""
QUEUED_FRAMES_MAX = 10_000
QUEUED_BYTES_MAX = 128 << 20
_LENGTH = struct.Struct(">I")

_Out = TypeVar("_Out", bound=Message)
_In = TypeVar("_In", bound=Message)


class PipeFull(Exception):  # noqa: N818 - reads as the sentence it is
    """The other end takes nothing for so long that no more can be queued."""


class SlotPipe(Generic[_Out, _In]):
    """One end. `send*` may be called by any thread, `receive` by one.

    parse   bytes of a frame from the other end -> frame
    beat    a time (monotonic, ns) -> this end's beat
    beat_s  between two beats
    """

    def __init__(
        self, sock: socket.socket, parse: Callable[[bytes], _In], beat: Callable[[int], _Out], beat_s: float
    ) -> None:
        self._sock = sock
        self._parse = parse
        self._beat = beat
        self._beat_s = beat_s
        self._changed = threading.Condition()
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        self._writing = False
        self._closed = False
        self._writer = threading.Thread(target=self._write, name="slot-pipe", daemon=True)
        self._writer.start()

    def send(self, frame: _Out) -> None:
        """Queues a frame; waits for room. On a closed pipe nothing happens."""
        data = _framed(frame)
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._has_room(data))
            self._enqueue(data)

    def send_nowait(self, frame: _Out) -> None:
        """Queues a frame. Raises PipeFull. On a closed pipe nothing happens."""
        data = _framed(frame)
        with self._changed:
            if not self._closed and not self._has_room(data):
                raise PipeFull
            self._enqueue(data)

    def receive(self) -> _In | None:
        """Waits for the next frame; None: the other end, or this one, is closed."""
        with suppress(OSError):
            head = self._exactly(_LENGTH.size)
            if head is not None:
                (length,) = _LENGTH.unpack(head)
                assert length <= FRAME_BYTES_MAX, f"a frame of {length} bytes"
                body = self._exactly(length)
                if body is not None:
                    return self._parse(body)
        return None

    def flush(self, timeout_s: float) -> bool:
        """Waits until all that was queued is written. Gives whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closed or not (self._queue or self._writing), timeout_s)

    def close(self) -> None:
        """The other end hears of it at once; what is queued is dropped. Idempotent."""
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

    def _has_room(self, data: bytes) -> bool:
        fits = len(self._queue) < QUEUED_FRAMES_MAX and self._bytes + len(data) <= QUEUED_BYTES_MAX
        return fits or not self._queue

    def _enqueue(self, data: bytes) -> None:
        if not self._closed:
            self._queue.append(data)
            self._bytes += len(data)
            self._changed.notify_all()

    def _write(self) -> None:
        beat_at_s = time.monotonic()
        with suppress(OSError):
            while True:
                data = self._next(beat_at_s)
                if data is None:
                    return
                if not data:
                    beat_at_s = time.monotonic() + self._beat_s
                    data = _framed(self._beat(time.monotonic_ns()))
                self._sock.sendall(data)
        with self._changed:
            # nobody is there to read: who waits for room or for a flush need not wait
            self._closed = True
            self._changed.notify_all()

    def _next(self, beat_at_s: float) -> bytes | None:
        """What is to be written next: a frame, nothing (a beat is due), or None: the end."""
        with self._changed:
            self._writing = False
            self._changed.notify_all()
            while not self._closed:
                left_s = beat_at_s - time.monotonic()
                if left_s <= 0:
                    return b""
                if self._queue:
                    data = self._queue.popleft()
                    self._bytes -= len(data)
                    self._writing = True
                    return data
                self._changed.wait(left_s)
        return None

    def _exactly(self, count: int) -> bytes | None:
        data = bytearray(count)
        view = memoryview(data)
        while view:
            got = self._sock.recv_into(view)
            if not got:
                return None
            view = view[got:]
        return bytes(data)


def _framed(frame: Message) -> bytes:
    data = frame.SerializeToString()
    assert len(data) <= FRAME_BYTES_MAX, f"a frame of {len(data)} bytes"
    return _LENGTH.pack(len(data)) + data
