"""A port of this host that stays a test's own while its servers come and go."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

LOOPBACK = "127.0.0.1"


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port on loopback that nobody else is given meanwhile, and that refuses callers while no server listens there.

    It is bound and not listened at: servers that set SO_REUSEADDR (gRPC's and asyncio's do) may listen beside that, and
    the system gives such a port neither to a socket that asks for any port nor to an outgoing connection.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((LOOPBACK, 0))
        yield int(held.getsockname()[1])
