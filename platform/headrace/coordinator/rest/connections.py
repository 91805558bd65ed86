"""Bounds the REST connections that have no request in progress: idle connections of unauthenticated callers must not
use up file descriptors, or prevent clients from connecting.

uvicorn has no such bound: it waits for a first request without a time limit, and its `limit_concurrency` counts idle
connections, too. It also sees a TLS connection only after the handshake, which a caller may never finish. So the
handshake is done here.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from ssl import SSLContext
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from headrace.core.network.entrance import Entrance

WAITING_MAX = 128
"""Most connections without a request in progress. One more closes the one that has waited longest.
"""
REQUEST_SECONDS_MAX = 10.0
"""How long a connection may take for its TLS handshake, and for a request up to the end of its headers."""


def bounded_protocol(tls: SSLContext | None = None) -> type[H11Protocol]:
    """Returns a protocol class for one server; its connections share their bound. tls None: they are not encrypted."""
    door: Entrance[BoundedProtocol] = Entrance(WAITING_MAX)
    return type("BoundedProtocol", (BoundedProtocol,), {"door": door, "tls": tls})


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 on one connection. It is closed if its next request takes too long, or if a further connection needs its
    place."""

    door: Entrance[BoundedProtocol]
    tls: SSLContext | None

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
        self._handshake: asyncio.Task[None] | None = None
        self._early = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called when a client has connected."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._wait()
        self._set_deadline()
        if self.tls is not None:
            self._handshake = self.loop.create_task(self._secure(self.tls))

    async def _secure(self, tls: SSLContext) -> None:
        """Does the TLS handshake, then calls uvicorn's `connection_made` with the secure transport."""
        plain, secure = self.transport, None
        # OSError: the client refused the handshake, was too slow or is gone
        with suppress(OSError):
            secure = await self.loop.start_tls(
                plain, self, tls, server_side=True, ssl_handshake_timeout=REQUEST_SECONDS_MAX
            )
        if secure is None:
            plain.abort()
            # asyncio calls `connection_lost` only after a successful handshake, so it is called here
            self.connection_lost(None)
            return
        self._handshake = None
        super().connection_made(secure)
        early, self._early = self._early, b""
        if early:
            self.data_received(early)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the connection has ended."""
        super().connection_lost(exc)
        self._wait_no_more()

    def data_received(self, data: bytes) -> None:
        """Called when bytes of a request have arrived."""
        if self._handshake is not None:
            # these bytes arrived together with the last ones of the handshake, before `_secure` has continued: kept
            # until it does
            self._early += data
            return
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._wait_no_more()
        elif self._deadline is None:
            # the first bytes of the next request on a kept connection
            self._set_deadline()

    def on_response_complete(self) -> None:
        """Called when a response is sent. uvicorn keeps the connection for the next request."""
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
