"""One connection to one broker: TCP, TLS, login, then requests in order. Blocking, used by one thread.

Requests are pipelined; a broker answers in order. Every call has a deadline. After an exception the connection is
closed and never used again.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from headrace.core.network.frames import receive_exactly
from headrace_connectors.kafka.requests.requests import (
    API_VERSIONS,
    Request,
    api_versions,
    sasl_authenticate,
    sasl_handshake,
)
from headrace_connectors.kafka.requests.sasl import LoginRefusedError, SaslMechanism
from headrace_connectors.kafka.requests.wire_format import MalformedAnswerError

ANSWER_BYTES_MAX = 100_000_000
_STEPS_MAX = 10
"""Most steps of one login; the longest mechanism has four."""
_LIFETIME_SHARE = 0.8
"""A login with a lifetime is used for this share of it, so that it does not expire during a request."""
_UNSUPPORTED_MECHANISM = 33

A = TypeVar("A")


class ConnectionBrokenError(Exception):
    """A failed or lost connection: requests in flight may or may not have been executed."""


class VersionUnknownError(Exception):
    """The broker and this client have no common version of a request."""


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Connection settings for any broker of a cluster.

    tls            None: no TLS
    login          creates a login for a broker's host; None: no SASL
    forget_login   called after a rejected login, so that the next one differs; True if the next one may succeed
    canonical      bootstrap addresses are replaced by canonical host names, as Kerberos requires
    """

    client_id: str = "headrace"
    tls: ssl.SSLContext | None = None
    login: Callable[[str], SaslMechanism] | None = field(default=None, repr=False)
    forget_login: Callable[[], bool] = lambda: False
    canonical: bool = False


class BrokerConnection:
    """Connected and logged in when the constructor returns.

    Raises ConnectionBrokenError if that fails or is not done by `deadline` (of `time.monotonic`), and
    LoginRefusedError.
    """

    def __init__(self, host: str, port: int, settings: ConnectionSettings, *, deadline: float) -> None:
        self._where = f"{host}:{port}"
        self._settings = settings
        self._versions: dict[int, tuple[int, int]] = {API_VERSIONS: (0, 0)}
        self._waiting: deque[tuple[int, int, Request[object]]] = deque()
        self._correlation = 0
        self._expires_at = float("inf")
        # before connecting: this may fetch a token, which must not use up the broker's time limit
        login = None if settings.login is None else settings.login(host)
        self._sock = self._connected(host, port, deadline)
        try:
            self._ask_versions(deadline)
            if login is not None:
                self._log_in(login, deadline)
        except BaseException:
            self.close()
            raise

    def _connected(self, host: str, port: int, deadline: float) -> socket.socket:
        try:
            sock = socket.create_connection((host, port), timeout=_left(deadline))
        except (OSError, UnicodeError) as cause:  # UnicodeError: the host name is invalid (IDNA)
            raise ConnectionBrokenError(f"no connection to {self._where}: {cause}") from cause
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._settings.tls is None:
            return sock
        try:
            sock.settimeout(_left(deadline))
            return self._settings.tls.wrap_socket(sock, server_hostname=host)
        except (OSError, ValueError) as cause:
            sock.close()
            raise ConnectionBrokenError(f"no TLS with {self._where}: {cause}") from cause

    def _ask_versions(self, deadline: float) -> None:
        code, versions = self.ask(api_versions(), deadline)
        if code:
            raise ConnectionBrokenError(f"{self._where} answers error {code} to ApiVersions")
        self._versions = versions

    def _log_in(self, mechanism: SaslMechanism, deadline: float) -> None:
        code, offered = self.ask(sasl_handshake(mechanism.name), deadline)
        if code == _UNSUPPORTED_MECHANISM:
            raise LoginRefusedError(
                f"UnsupportedSaslMechanism: {self._where} offers {', '.join(offered)}, not {mechanism.name}"
            )
        if code:
            raise LoginRefusedError(f"{self._where} answers error {code} to SaslHandshake")
        content: bytes | None = mechanism.first()
        for _ in range(_STEPS_MAX):
            if content is None:
                return
            started = time.monotonic()
            answer = self.ask(sasl_authenticate(content), deadline)
            if answer.code:
                raise LoginRefusedError(f"authentication failed at {self._where}: {answer.message}")
            if answer.lifetime_ms > 0:
                self._expires_at = started + _LIFETIME_SHARE * answer.lifetime_ms / 1_000
            content = mechanism.respond(answer.content)
        raise LoginRefusedError(f"the login at {self._where} does not end")

    @property
    def usable(self) -> bool:
        """Whether another request may be sent: it is open, its login has not expired, the broker has not closed it."""
        if self._sock.fileno() < 0:
            return False
        if self._waiting:
            return True
        if time.monotonic() >= self._expires_at:
            return False
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        # no request is in flight, so readable bytes can only be the end of the stream
        return not poll.poll(0)

    def version(self, request: Request[A]) -> int:
        """The highest common version. Raises VersionUnknownError."""
        lowest, highest = self._versions.get(request.api_key, (0, -1))
        if not max(lowest, request.lowest) <= min(highest, request.highest):
            raise VersionUnknownError(
                f"{self._where} knows {request.name} from version {lowest} to {highest}, "
                f"this client {request.lowest} to {request.highest}"
            )
        return min(highest, request.highest)

    def ask(self, request: Request[A], deadline: float) -> A:
        """Sends the request and waits for its answer; no other request may be in flight."""
        self.send(request, deadline)
        return self.receive(request, deadline)

    def send(self, request: Request[A], deadline: float) -> None:
        """Sends the request. Raises ConnectionBrokenError, VersionUnknownError."""
        version = self.version(request)
        self._correlation = self._correlation + 1 & 0x7FFFFFFF
        content = request.content(version, self._correlation, self._settings.client_id)
        try:
            self._sock.settimeout(_left(deadline))
            self._sock.sendall(struct.pack(">i", len(content)) + content)
        except OSError as cause:
            raise self._broken(cause) from cause
        self._waiting.append((self._correlation, version, request))

    def receive(self, request: Request[A], deadline: float) -> A:
        """The answer to the oldest request in flight, which is `request`. Raises ConnectionBrokenError."""
        correlation, version, oldest = self._waiting.popleft()
        assert oldest is request, "answers come in the order of requests"
        try:
            (size,) = struct.unpack(">i", self._read(4, deadline))
            if not 4 <= size <= ANSWER_BYTES_MAX:
                raise MalformedAnswerError(f"an answer of {size} bytes")
            content = self._read(size, deadline)
            if int.from_bytes(content[:4], "big") != correlation:
                raise MalformedAnswerError("an answer to another request")
            return request.answer(version, content[4:])
        except (OSError, MalformedAnswerError) as cause:
            raise self._broken(cause) from cause

    def _read(self, size: int, deadline: float) -> bytes:
        def receive_into(view: memoryview) -> int:
            self._sock.settimeout(_left(deadline))
            return self._sock.recv_into(view)

        data = receive_exactly(receive_into, size)
        if data is None:
            raise OSError("the broker closed the connection")
        return data

    def _broken(self, cause: Exception) -> ConnectionBrokenError:
        self.close()
        return ConnectionBrokenError(f"the connection to {self._where} broke: {cause}")

    def close(self) -> None:
        """Closes at once; requests in flight get no answer. Idempotent."""
        self._sock.close()


def _left(deadline: float) -> float:
    # 0 would make the socket non-blocking
    return max(deadline - time.monotonic(), 0.001)
