"""The byte stream of an authenticated connection: a plain socket, or TLS over it.

Every call returns within the configured interval, so that a link can send pings and detect a silent peer. One thread
may read while another one writes.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

_RECORD_BYTES = 16 * 1024
"""Size of a TLS record."""
_CHUNK_BYTES = 256 * 1024
"""Most bytes per call of TLS: bounds how long the thread of the other direction waits for the lock."""


class Stream(Protocol):
    """Both directions of a connection. Calls raise OSError if it is down."""

    def send(self, parts: Sequence[memoryview]) -> int:
        """Writes at least one byte of the parts and returns the count. Raises BlockingIOError if none could be written
        within the interval."""
        ...

    def send_now(self, data: bytes) -> int:
        """Writes what the socket buffer accepts now and returns the count. Raises BlockingIOError if the buffer is
        full."""
        ...

    def recv_into(self, view: memoryview, *, whole: bool) -> int:
        """Reads at least one byte; 0: the peer has closed. Raises BlockingIOError if nothing arrived within the
        interval.

        whole  may wait for the whole view within the interval, so that a large frame takes few calls
        """
        ...

    def something_came(self) -> bool:
        """Whether bytes can be read now."""
        ...

    def shutdown(self, how: int) -> None:
        """Shuts down a direction, or both."""
        ...

    def close(self) -> None:
        """Closes the descriptor."""
        ...


def stream_of(sock: socket.socket, interval_ms: int) -> Stream:
    """The stream of a connected socket."""
    return TlsStream(sock, interval_ms) if isinstance(sock, ssl.SSLSocket) else PlainStream(sock, interval_ms)


def shut(sock: socket.socket, how: int) -> None:
    """Shuts a socket down at the TCP level; an SSL socket keeps its keys, which its reading thread may still need."""
    socket.socket.shutdown(sock, how)


class PlainStream:
    """The socket itself."""

    def __init__(self, sock: socket.socket, interval_ms: int) -> None:
        self._socket = sock
        # a blocking socket with a timeout per direction (SO_RCVTIMEO, SO_SNDTIMEO)
        sock.settimeout(None)
        interval = struct.pack("ll", interval_ms // 1_000, interval_ms % 1_000 * 1_000)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, interval)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, interval)

    def send(self, parts: Sequence[memoryview]) -> int:
        """See Stream."""
        return self._socket.sendmsg(parts)

    def send_now(self, data: bytes) -> int:
        """See Stream."""
        return self._socket.send(data, socket.MSG_DONTWAIT)

    def recv_into(self, view: memoryview, *, whole: bool) -> int:
        """See Stream."""
        # after the timeout a call for the whole view returns what has arrived
        return self._socket.recv_into(view, 0, socket.MSG_WAITALL if whole else 0)

    def something_came(self) -> bool:
        """See Stream."""
        try:
            self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        return True

    def shutdown(self, how: int) -> None:
        """See Stream."""
        self._socket.shutdown(how)

    def close(self) -> None:
        """See Stream."""
        self._socket.close()


class TlsStream:
    """A TLS connection: decrypts into the reader's buffer, encrypts from the sender's.

    OpenSSL connections are not thread-safe. So the socket is non-blocking, each call holds one lock, and no thread
    waits while it holds the lock.
    """

    def __init__(self, sock: ssl.SSLSocket, interval_ms: int) -> None:
        self._socket = sock
        self._interval_ms = interval_ms
        self._lock = threading.Lock()
        sock.settimeout(0)

    def send(self, parts: Sequence[memoryview]) -> int:
        """See Stream. After BlockingIOError the caller must pass the same parts again: TLS has begun to send them."""
        first = parts[0]
        if len(parts) > 1 and len(first) < _RECORD_BYTES:
            # one record for a frame's header and the beginning of its payload, not two
            first = memoryview(bytes(first) + bytes(parts[1][: _RECORD_BYTES - len(first)]))
        return self._call(self._socket.send, first[:_CHUNK_BYTES])

    def send_now(self, data: bytes) -> int:
        """See Stream."""
        if not self._is_ready(select.POLLOUT, 0):
            raise BlockingIOError
        try:
            return self.send([memoryview(data)])
        except BlockingIOError as error:
            # The socket had room when it was polled, and the record does not fit. TLS has begun to send that record, so
            # the caller cannot skip it and send something else later: the connection must end.
            raise TimeoutError from error

    def recv_into(self, view: memoryview, *, whole: bool) -> int:
        """See Stream."""
        return self._call(self._socket.recv_into, view)

    def something_came(self) -> bool:
        """See Stream."""
        return self._is_ready(select.POLLIN, 0)

    def shutdown(self, how: int) -> None:
        """See Stream."""
        shut(self._socket, how)

    def close(self) -> None:
        """See Stream."""
        with self._lock:
            self._socket.close()

    def _call(self, call: Callable[[memoryview], int], view: memoryview) -> int:
        """Makes the call, and repeats it whenever the direction that TLS needs is ready. Raises BlockingIOError if that
        direction is not ready within the interval."""
        while True:
            with self._lock:
                try:
                    return call(view)
                # with TLS a read may have to write first, and vice versa (key update)
                except ssl.SSLWantWriteError:
                    events = select.POLLOUT
                except ssl.SSLWantReadError:
                    events = select.POLLIN
            if not self._is_ready(events, self._interval_ms):
                raise BlockingIOError

    def _is_ready(self, events: int, timeout_ms: int) -> bool:
        poll = select.poll()
        poll.register(self._socket, events)
        return bool(poll.poll(timeout_ms))
