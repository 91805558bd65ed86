"""The address of this host by which the other hosts of a cluster reach it."""

from __future__ import annotations

import logging
import os
import socket
import time

from headrace.core.errors import ExternalError, UnreachableError, UserError
from headrace.core.network.hosts import is_loopback
from headrace.leadership.opening import is_election, open_addresses

LOOK_SECONDS = 1.0
_log = logging.getLogger(__name__)


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


def own_address(coordinator: str) -> str:
    """The local address from which this host reaches the coordinator: `HOST:PORT`, several of them, or the URL of an
    election, of which it waits for the leader. Raises UserError, UnreachableError."""
    addresses = open_addresses(coordinator, os.environ)
    said = ""
    try:
        while True:
            try:
                return address_towards(addresses.next())
            except UnreachableError:
                raise
            except ExternalError as error:
                if said != error.message:
                    said = error.message
                    _log.warning("waiting for a coordinator: %s", said)
            time.sleep(LOOK_SECONDS)
    finally:
        addresses.close()


def may_have_own_token(coordinator: str) -> bool:
    """Whether the token of this host's home may be the cluster's: its coordinator is on this host, or was elected, in
    which case each coordinator's home has the token. Raises UserError."""
    if is_election(coordinator):
        return True
    return all(is_loopback(split_address(each.strip())[0]) for each in coordinator.split(","))
