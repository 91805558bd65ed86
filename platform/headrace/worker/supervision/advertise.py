"""The address of this host by which the other hosts of a cluster reach it."""

from __future__ import annotations

import socket

from headrace.core.errors import UnreachableError, UserError


def split_address(text: str) -> tuple[str, int]:
    """The host and port of `HOST:PORT`; an IPv6 host is in brackets. Raises UserError."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise UserError(f"{text!r} is no address", remedy="write HOST:PORT, such as 127.0.0.1:7070")
    return host.removeprefix("[").removesuffix("]"), int(port)


def address_towards(coordinator: str) -> str:
    """The local address from which this host reaches `HOST:PORT`; a loopback address for a loopback coordinator.

    Connecting a UDP socket sends nothing: the kernel only chooses the route and its source address. Raises
    UnreachableError if there is no route or no host of that name.
    """
    host, port = split_address(coordinator)
    try:
        kind, _, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(kind, socket.SOCK_DGRAM) as sock:
            sock.connect(target)
            return str(sock.getsockname()[0])
    except OSError as error:
        raise UnreachableError(f"there is no way to the coordinator at {coordinator}: {error}") from error
