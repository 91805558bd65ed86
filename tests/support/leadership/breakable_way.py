"""A way to a server on loopback that a test cuts and mends, and on which it lets handshakes disappear."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from support.reserved_port import LOOPBACK, reserved_port


class BreakableWay:
    """Forwards connections from `port` to the server while it is open. Made by `breakable_way`."""

    def __init__(self, port: int, server_port: int) -> None:
        self.port = port
        self._server_port = server_port
        self._listening: socket.socket | None = None
        self._connections: list[socket.socket] = []
        self._swallowed = 0

    def open(self, *, swallowed: int = 0) -> None:
        """Forwards connections from now on. swallowed: so many of the next ones are taken, and reach nobody."""
        self._swallowed = swallowed
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, self.port))
        listening.listen()
        self._listening = listening
        threading.Thread(target=self._accept, args=[listening], daemon=True).start()

    def cut(self) -> None:
        """Breaks all connections, and refuses others."""
        if self._listening is not None:
            # closing alone does not wake the thread that accepts
            self._listening.shutdown(socket.SHUT_RDWR)
            self._listening.close()
            self._listening = None
        while self._connections:
            _end(self._connections.pop())

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listening.accept()
                self._connections.append(client)
                if self._swallowed:
                    self._swallowed -= 1
                    continue
                server = socket.create_connection((LOOPBACK, self._server_port))
                self._connections.append(server)
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=_forward, args=[source, target], daemon=True).start()


@contextmanager
def breakable_way(server_port: int) -> Iterator[BreakableWay]:
    """An open way to the server at that port."""
    with reserved_port() as port:
        way = BreakableWay(port, server_port)
        way.open()
        try:
            yield way
        finally:
            way.cut()


def _forward(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(1 << 16):
            target.sendall(part)
    _end(target)


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
