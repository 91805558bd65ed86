"""The bytes of a connection that was let in: from the socket itself, or through TLS.

Both return from each call within the interval that was set, so that a link can ping and notice silence, and both may
be read by one thread while another one writes.
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
"""What TLS encrypts at a time."""
_CHUNK_BYTES = 256 * 1024
"""What is handed to TLS at a time: so long the other direction may wait for its lock."""


class Stream(Protocol):
    """Both directions. Calls raise OSError where the connection is down."""

    def send(self, parts: Sequence[memoryview]) -> int:
        """Writes at least one byte of these and returns how many. Raises BlockingIOError: none for the interval."""
        ...

    def send_now(self, data: bytes) -> int:
        """Writes what goes at once and returns how much. Raises BlockingIOError where the peer has much to read."""
        ...

    def recv_into(self, view: memoryview) -> int:
        """Reads at least one byte; 0: the peer has ended. Raises BlockingIOError: nothing came for the interval."""
        ...

    def something_came(self) -> bool:
        """Whether there are bytes to read now."""
        ...

    def shutdown(self, how: int) -> None:
        """Ends a direction, or both."""
        ...

    def close(self) -> None:
        """Gives up the descriptor."""
        ...


def stream_of(sock: socket.socket, interval_ms: int) -> Stream:
    """The stream of a connected socket."""
    return TlsStream(sock, interval_ms) if isinstance(sock, ssl.SSLSocket) else PlainStream(sock, interval_ms)


def shut(sock: socket.socket, how: int) -> None:
    """Shuts a socket down; one of TLS without forgetting its keys, which its reading thread may need."""
    socket.socket.shutdown(sock, how)


class PlainStream:
    """The socket itself."""

    def __init__(self, sock: socket.socket, interval_ms: int) -> None:
        self._socket = sock
        # a blocking socket whose calls come back from time to time, in each direction by itself
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

    def recv_into(self, view: memoryview) -> int:
        """See Stream."""
        return self._socket.recv_into(view, 0, socket.MSG_WAITALL)

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
    """TLS, decrypted into the reader's buffer and encrypted from the sender's.

    OpenSSL's connections may not be used by two threads at once. So the socket does not block, one lock is held for
    each call, and nobody waits with the lock held.
    """

    def __init__(self, sock: ssl.SSLSocket, interval_ms: int) -> None:
        self._socket = sock
        self._interval_ms = interval_ms
        self._lock = threading.Lock()
        sock.settimeout(0)

    def send(self, parts: Sequence[memoryview]) -> int:
        """See Stream. After BlockingIOError the same parts have to come again: TLS has begun to send them."""
        first = parts[0]
        if len(parts) > 1 and len(first) < _RECORD_BYTES:
            # a frame's head with the beginning of its payload: one record, not two
            first = memoryview(bytes(first) + bytes(parts[1][: _RECORD_BYTES - len(first)]))
        return self._call(self._socket.send, first[:_CHUNK_BYTES])

    def send_now(self, data: bytes) -> int:
        """See Stream."""
        if not self._is_ready(select.POLLOUT, 0):
            raise BlockingIOError
        try:
            return self.send([memoryview(data)])
        except BlockingIOError as error:
            # there was room for a record: a record that TLS has begun cannot be given up
            raise TimeoutError from error

    def recv_into(self, view: memoryview) -> int:
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
        """Calls again when the direction that TLS wants is ready. Raises BlockingIOError: not within the interval."""
        while True:
            with self._lock:
                try:
                    return call(view)
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
