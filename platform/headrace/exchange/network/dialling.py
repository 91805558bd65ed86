"""Connects a slot to another one: a socket to its address, and the handshake, retried until it succeeds."""

from __future__ import annotations

import socket
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from headrace.core.errors import ExternalError, UnreachableError
from headrace.core.retry import Backoff, Retries
from headrace.exchange.network.encryption import Encryption
from headrace.exchange.network.handshake import PLAIN, HandshakeSocket, Identity, introduce
from headrace.tls.checks import alert_of

_TRY_S = 4.0
"""Time limit of one connect, in seconds. During a network partition the kernel doubles the pause between its SYNs, up
to half a minute; a new connect sends a SYN at once."""
_UNIX_BUFFER_BYTES = 1 << 20
"""Bytes that a sender may write ahead, as far as the kernel allows. With fewer, both ends wait for each other often."""
_BACKOFF = Backoff(first_s=0.02, max_s=0.5)
"""Pauses between calls to a callee that was not ready."""
_LEFT_S_MIN = 0.001
"""A timeout of zero would make the socket non-blocking."""


class Address(NamedTuple):
    """The address of a slot: TCP for other hosts, a Unix socket for its own host (empty: none)."""

    host: str
    port: int
    unix_path: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Callee:
    """The slot to connect to: its address, its index, and its name in error messages."""

    address: Address
    slot: int
    name: str


def dial(callee: Callee, caller: Identity, timeout_s: float, *, encryption: Encryption | None = None) -> socket.socket:
    """Connects to a slot; both ends have proven that they have the attempt's token when it returns.

    encryption  TLS for TCP connections; None: none

    Retries for up to `timeout_s` while the callee is not deployed yet, or closes the connection because it has too many
    unauthenticated callers. Raises UnreachableError if a connect fails, ExternalError for a refusal, a failed proof or
    a timeout.
    """
    deadline_s = time.monotonic() + timeout_s
    retries = Retries(_BACKOFF, timeout_s, overruns=False)
    while True:
        sock = _connected(callee, _left_s(deadline_s))
        try:
            channel = PLAIN
            if encryption is not None and sock.family != socket.AF_UNIX:
                sock, channel = encryption.call(sock, callee.address.host, _left_s(deadline_s))
            reason = introduce(HandshakeSocket(sock, _left_s(deadline_s), channel), caller, callee.slot)
        except TimeoutError as error:
            sock.close()
            raise ExternalError(f"{callee.name} did not answer in time", retry=True) from error
        except OSError as error:
            sock.close()
            reason = _reason(callee, error)
        except ExternalError as error:
            sock.close()
            raise ExternalError(f"{callee.name}: {error.message}", remedy=error.remedy, retry=True) from error
        if reason is None:
            return sock
        sock.close()
        if not retries.pause():
            raise ExternalError(f"{callee.name} did not let us in in time: {reason}", retry=True)


def _reason(callee: Callee, error: OSError) -> str:
    """The reason to retry. Raises ExternalError if a retry is useless."""
    refused = alert_of(error) if isinstance(error, ssl.SSLError) else None
    if refused is not None:
        remedy = "the worker's certificate has to be signed by the cluster's authority, and in its time"
        raise ExternalError(
            f"{callee.name} does not accept our certificate ({refused})", remedy=remedy, retry=True
        ) from error
    return f"it ended the connection ({error})"


def _left_s(deadline_s: float) -> float:
    return max(deadline_s - time.monotonic(), _LEFT_S_MIN)


def _connected(callee: Callee, timeout_s: float) -> socket.socket:
    address = callee.address
    unix = bool(address.unix_path) and Path(address.unix_path).exists()
    try:
        return _connected_unix(address.unix_path, timeout_s) if unix else _connected_tcp(address, timeout_s)
    except OSError as error:
        raise UnreachableError(f"{callee.name} cannot be reached: {error}") from error


def _connected_unix(path: str, timeout_s: float) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout_s)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNIX_BUFFER_BYTES)
        sock.connect(path)
    except OSError:
        sock.close()
        raise
    return sock


def _connected_tcp(address: Address, timeout_s: float) -> socket.socket:
    deadline_s = time.monotonic() + timeout_s
    while True:
        left_s = deadline_s - time.monotonic()
        try:
            sock = socket.create_connection((address.host, address.port), timeout=max(min(left_s, _TRY_S), 0.001))
        except TimeoutError:
            if left_s <= _TRY_S:
                raise
            continue
        prepare_tcp(sock)
        return sock


def prepare_tcp(sock: socket.socket) -> None:
    """Sends frames at once (no Nagle delay), and lets the kernel probe idle connections."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
