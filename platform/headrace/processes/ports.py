"""Chooses and checks TCP ports, on loopback by default.

A port that is free now may be taken a moment later, so the caller retries with others. Ports are drawn below the
system's range for outgoing connections: within it, a client that keeps dialling a stopped broker can be assigned the
broker's own port, and then holds it.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path

from headrace.core.errors import ExternalError
from headrace.core.network.hosts import LOOPBACK

_LOWEST = 10_240
_OUTGOING_FROM = 32_768
_DRAWS_MAX = 200


def free_port(*, other_than: int = 0, host: str = LOOPBACK) -> int:
    """Returns a port that nothing listens on now. Raises ExternalError after `_DRAWS_MAX` draws without one."""
    draw = random.SystemRandom()
    for _ in range(_DRAWS_MAX):
        port = draw.randrange(_LOWEST, _first_outgoing_port())
        if port != other_than and is_free(port, host):
            return port
    raise ExternalError(f"no free TCP port was found on {host}", retry=True)


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether a server could listen on this port now; lingering connections do not count."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # as servers set it: sockets in TIME_WAIT do not block them
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def _first_outgoing_port() -> int:
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _OUTGOING_FROM
    return first if first > _LOWEST + 1000 else _OUTGOING_FROM
