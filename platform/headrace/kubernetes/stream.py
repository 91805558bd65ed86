"""Lines of an answer that goes on: a watch, or a log that is followed."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.errors import UnreachableError

if TYPE_CHECKING:
    from types import TracebackType

    from urllib3 import BaseHTTPResponse

LINE_BYTES_MAX = 8 << 20
"""Longer lines are returned in parts. Objects are shorter: etcd stores at most 1.5 MiB of one."""
_CLOSE_SECONDS = 5.0


class LineStream(Iterator[bytes]):
    """The lines, without their ends. One thread reads; any thread may close it, which ends the iteration.

    Raises UnreachableError if the connection breaks, or if no data come for the time that it was opened with.
    """

    def __init__(self, response: BaseHTTPResponse, host: str) -> None:
        self._response = response
        self._host = host
        self._parts = response.stream(1 << 16, decode_content=False)
        self._buffer = bytearray()
        self._reading = threading.Lock()
        self._closed = threading.Event()

    def __enter__(self) -> LineStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __next__(self) -> bytes:
        from urllib3.exceptions import HTTPError

        with self._reading:
            while (end := self._buffer.find(b"\n")) < 0 and len(self._buffer) < LINE_BYTES_MAX:
                if self._closed.is_set():
                    raise StopIteration
                try:
                    self._buffer += next(self._parts)
                except StopIteration:
                    return self._rest()
                except (HTTPError, OSError, ValueError, AttributeError) as error:
                    # a socket that `close` has shut down fails in all of these ways
                    if self._closed.is_set():
                        raise StopIteration from None
                    raise UnreachableError(f"the connection to the Kubernetes API at {self._host} broke") from error
            end = end if end >= 0 else LINE_BYTES_MAX
            line = bytes(self._buffer[:end])
            del self._buffer[: end + (self._buffer[end : end + 1] == b"\n")]
            return line

    def close(self) -> None:
        """Ends the iteration, and releases the connection. Idempotent."""
        self._closed.set()
        connection = getattr(self._response, "connection", None)
        sock = getattr(connection, "sock", None)
        if isinstance(sock, socket.socket):
            # a thread that reads holds locks of the response, on which its own `close` would wait
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        if self._reading.acquire(timeout=_CLOSE_SECONDS):
            try:
                release(self._response)
            finally:
                self._reading.release()

    def _rest(self) -> bytes:
        """The last line, if it has no end."""
        if not self._buffer:
            raise StopIteration
        line = bytes(self._buffer)
        self._buffer.clear()
        return line


def limit_reads(response: BaseHTTPResponse, seconds: float) -> None:
    """Limits each following read from the connection."""
    connection = getattr(response, "connection", None)
    sock = getattr(connection, "sock", None)
    if isinstance(sock, socket.socket):
        sock.settimeout(seconds)


def release(response: BaseHTTPResponse) -> None:
    """Closes the connection of an answer that was not read to its end; the other ones are back in the pool already."""
    with contextlib.suppress(Exception):
        response.close()
        response.release_conn()
