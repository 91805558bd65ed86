"""Connections to ZooKeeper that one dead server cannot hold up.

kazoo waits for one server's TCP connection as long as the whole session lasts, and for its answer to the handshake
that time by the number of servers. A host that drops packets, or a server that swallows a handshake while it starts
(a real one does), would then cost the session although its servers could be reached.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kazoo.handlers.threading import SequentialThreadingHandler

TRIES_MIN = 3
"""How many tries the time of a session is enough for."""


def connecting_handler(connect_s: float) -> SequentialThreadingHandler:
    """kazoo's threads, with a limit of their own for each TCP connection instead of the time of the session."""
    from kazoo.handlers.threading import SequentialThreadingHandler

    handler = SequentialThreadingHandler()
    connect: Callable[..., socket.socket] = handler.create_connection

    def create_connection(*args: object, **options: object) -> socket.socket:
        return connect(*args, **{**options, "timeout": connect_s})

    handler.create_connection = create_connection
    return handler


def repeated(hosts: str) -> list[str]:
    """The hosts, named again until there are `TRIES_MIN`: kazoo divides the time of a session by their number."""
    named = hosts.split(",")
    return named * -(-TRIES_MIN // len(named))
