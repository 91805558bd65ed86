"""Reads frames from a byte stream through a small buffer: one system call for all small frames that have arrived.

A payload that is not in the buffer as a whole is received straight into its own memory.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from headrace.exchange.network.wire import HEADER, Buffer, Header, decode_header

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
