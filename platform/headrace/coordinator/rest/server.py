"""A server of the REST API in the event loop of its process: of a coordinator, where what answers changes with
leadership, or of a run with a page. It handles no signals: the process decides when it ends.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING

from headrace.tls.files import TlsFiles

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send
    from uvicorn import Server

KEEP_ALIVE_SECONDS = 75
"""How long a connection without requests is kept. Far longer than our clients reuse one (5 s), because a request that
arrives while the server closes its connection fails.
"""


class RestServer:
    """One listening server. `answer_with` sets what answers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._server: Server | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int, tls: TlsFiles | None = None) -> int:
        """Listens; returns the port. port: 0: a free one.

        Exits the process with a message of uvicorn's if the address is in use.
        """
        import uvicorn

        from headrace.coordinator.rest.connections import bounded_protocol
        from headrace.tls.contexts import rest_context

        settings = uvicorn.Config(
            self._forward,
            host=host,
            port=port,
            http=bounded_protocol(None if tls is None else rest_context(tls)),
            log_level="warning",
            ws="none",  # WebSocket upgrades are plain requests here: they need a token
            lifespan="off",
            interface="asgi3",
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        self._server = uvicorn.Server(settings)
        # uvicorn would replace the handlers of this process
        self._server.capture_signals = nullcontext  # type: ignore[assignment, method-assign]
        sock = settings.bind_socket()
        self._serving = asyncio.create_task(self._server.serve(sockets=[sock]))
        return int(sock.getsockname()[1])

    def answer_with(self, app: ASGIApp) -> None:
        """Lets `app` answer from the next request on."""
        self._app = app

    def end(self) -> None:
        """Stops accepting connections."""
        if self._server is not None:
            self._server.should_exit = True

    async def ended(self) -> None:
        """Waits until the server has stopped."""
        if self._serving is not None:
            await self._serving

    async def close(self, patience_s: float) -> None:
        """Ends the server. Requests that are under way get so long."""
        self.end()
        if self._serving is None or self._server is None:
            return
        await asyncio.wait({self._serving}, timeout=patience_s)
        self._server.force_exit = True
        await self._serving

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
