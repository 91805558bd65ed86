"""The coordinator's REST server: listens for the whole life of its process; what answers changes with leadership."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.coordinator.leading.config import CoordinatorConfig

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

    async def start(self, config: CoordinatorConfig) -> int:
        """Listens; returns the port. Exits the process with a message of uvicorn's if the address is in use."""
        import uvicorn

        from headrace.coordinator.rest.connections import bounded_protocol
        from headrace.tls.contexts import rest_context

        settings = uvicorn.Config(
            self._forward,
            host=config.host,
            port=config.port,
            http=bounded_protocol(None if config.tls is None else rest_context(config.tls)),
            log_level="warning",
            ws="none",  # WebSocket upgrades are plain requests here: they need a token
            lifespan="off",
            interface="asgi3",
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        self._server = uvicorn.Server(settings)
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
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

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
