"""Connections to the REST API that have no request in progress are few, and not waited for: a stranger's idle sockets
take no descriptor from others and keep nobody out.

uvicorn itself waits for a first request for ever, and its `limit_concurrency` would count idle connections too.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from headrace.core.entrance import Entrance

WAITING_MAX = 128
"""Connections at once without a request in progress; one more closes the one that has been silent for longest."""
REQUEST_SECONDS_MAX = 10.0
"""How long a request may take to arrive up to the end of its headers."""


def bounded_protocol() -> type[H11Protocol]:
    """A protocol class for one server; its connections share their bound."""
    door: Entrance[BoundedProtocol] = Entrance(WAITING_MAX)
    return type("BoundedProtocol", (BoundedProtocol,), {"door": door})


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 on one connection, which is closed while it waits for a request: for too long, or to make room."""

    door: Entrance[BoundedProtocol]

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._waiting = False
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._wait()
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        super().connection_lost(exc)
        self._wait_no_more()

    def data_received(self, data: bytes) -> None:
        """Bytes of a request."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._wait_no_more()
        elif self._deadline is None:
            # the first bytes of a request on a connection that was kept
            self._set_deadline()

    def on_response_complete(self) -> None:
        """An answer is sent; the connection is kept for a next request, which uvicorn waits for."""
        super().on_response_complete()
        if self.cycle is None or self.cycle.response_complete:
            self._wait()

    def _wait(self) -> None:
        if self._waiting or self.transport.is_closing():
            return
        self._waiting = True
        silent = self.door.enter(self)
        if silent is not None:
            silent.transport.abort()

    def _wait_no_more(self) -> None:
        self._waiting = False
        self.door.leave(self)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _set_deadline(self) -> None:
        self._deadline = self.loop.call_later(REQUEST_SECONDS_MAX, self.transport.abort)
