"""How a slot reaches another one: a socket to where it listens, and the handshake, repeated until it is let in."""

from __future__ import annotations

import socket
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from headrace.core.errors import ExternalError, Unreachable
from headrace.exchange.network.encryption import Encryption
from headrace.exchange.network.handshake import PLAIN, HandshakeSocket, Identity, introduce
from headrace.tls.diagnosis import alert_of

_TRY_S = 4.0
"""A try to connect: after a network was cut, the system's own next one may be half a minute away."""
_AGAIN_S_MIN, _AGAIN_S_MAX = 0.02, 0.5
"""The pause before a callee that could not let the caller in is called again."""
_LEFT_S_MIN = 0.001
"""A timeout of zero would mean a socket that does not block."""


class Address(NamedTuple):
    """Where a slot listens: TCP for other hosts, a Unix socket for its own (empty: none)."""

    host: str
    port: int
    unix_path: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Callee:
    """The slot that is meant: where it listens, its index, and its name in messages."""

    address: Address
    slot: int
    name: str


def dial(callee: Callee, caller: Identity, timeout_s: float, *, encryption: Encryption | None = None) -> socket.socket:
    """A connection whose two ends have proven that they have the attempt's token; over TCP by TLS where there is
    `encryption`.

    A callee that has not been deployed yet, or closes the connection because too many wait at its door, is called again
    until `timeout_s`. Raises Unreachable when nobody listens there, ExternalError for a refusal or a failed proof.
    """
    deadline_s = time.monotonic() + timeout_s
    pause_s = _AGAIN_S_MIN
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
        if time.monotonic() + pause_s > deadline_s:
            raise ExternalError(f"{callee.name} did not let us in in time: {reason}", retry=True)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _AGAIN_S_MAX)


def _reason(callee: Callee, error: OSError) -> str:
    """Why to come again. Raises ExternalError where that is useless."""
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
        raise Unreachable(f"{callee.name} cannot be reached: {error}") from error


def _connected_unix(path: str, timeout_s: float) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout_s)
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
    """Frames leave at once, and the kernel looks after a connection that nobody uses."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
