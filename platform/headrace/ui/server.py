"""The server of the page: NiceGUI behind the guard, in a uvicorn of its own that a signal ends with exit code 0."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext

import uvicorn
from fastapi import FastAPI
from nicegui import app as nicegui_app
from nicegui import ui

from headrace.client.http import Client
from headrace.core.network.hosts import host_port, is_loopback
from headrace.tls.contexts import rest_context
from headrace.tls.files import TlsFiles
from headrace.ui.access.guard import Guard, Sessions
from headrace.ui.pages.cluster_pages import cluster_page, workers_page
from headrace.ui.pages.job.page import job_pages
from headrace.ui.pages.pipeline_pages import submit_page, upgrade_page
from headrace.ui.polling.cluster_access import ClusterAccess
from headrace.ui.polling.operations import Operations
from headrace.ui.polling.poller import Poller

SHUTDOWN_SECONDS = 2
RECONNECT_SECONDS = 30
"""How long a browser may be away before its page is forgotten. NiceGUI derives the time of a ping from it (two fifths),
after which the page is loaded anew: that must not happen to a machine that is busy.
"""
CONNECTIONS_MAX = 256
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#12324a"/>'
    '<path d="M3 5h7a2 2 0 0 1 0 4H6a2 2 0 0 0 0 4h7" fill="none" stroke="#6db3f2" stroke-width="1.8"/></svg>'
)


@dataclass(frozen=True, slots=True)
class PageSettings:
    """host, port: where it listens, 0: a free port; token: browsers log in with it; tls: None: plain HTTP."""

    host: str
    port: int
    token: str
    tls: TlsFiles | None


def serve(settings: PageSettings, connect: Callable[[], Client], on_ready: Callable[[str], object]) -> None:
    """Serves the page until a signal ends it. connect: makes a client of the cluster; on_ready: gets the URL.

    Exits the process with a message of uvicorn's if the address is in use.
    """
    web = FastAPI(openapi_url=None)
    access = ClusterAccess(connect)
    poller = Poller(access)
    _register(poller, Operations(access, poller.refresh))
    ui.run_with(
        web,
        title="Headrace",
        favicon=_ICON,
        dark=None,
        tailwind=False,
        binding_refresh_interval=0.5,
        show_welcome_message=False,
        message_history_length=0,
        reconnect_timeout=RECONNECT_SECONDS,
    )
    nicegui_app.on_startup(poller.start)
    nicegui_app.on_shutdown(poller.close)
    _Server(web, settings, on_ready).serve_until_signal()
    if not poller.is_closed:
        # the interpreter would wait for the thread of a request that a suspended coordinator does not answer
        sys.stdout.flush()
        os._exit(0)


def _register(poller: Poller, operations: Operations) -> None:
    ui.add_css((Path(__file__).parent / "pages" / "page.css").read_text(), shared=True)
    cluster_page(poller)
    upgrade_page(poller, operations)
    job_pages(poller, operations)
    workers_page(poller)
    submit_page(poller)


def _config(web: FastAPI, settings: PageSettings) -> uvicorn.Config:
    def context(_config: uvicorn.Config, _default: Callable[[], SSLContext]) -> SSLContext:
        assert settings.tls is not None, "only set with TLS"
        return rest_context(settings.tls)

    return uvicorn.Config(
        web,
        host=settings.host,
        port=settings.port,
        log_level="warning",
        ws="websockets-sansio",
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        ssl_context_factory=None if settings.tls is None else context,
    )


class _Server(uvicorn.Server):
    """Ends by a signal as if it had been asked to: uvicorn would raise the signal again afterwards."""

    def __init__(self, web: FastAPI, settings: PageSettings, on_ready: Callable[[str], object]) -> None:
        super().__init__(_config(web, settings))
        self._web = web
        self._settings = settings
        self._on_ready = on_ready

    def serve_until_signal(self) -> None:
        """Listens, and serves."""
        sock = self.config.bind_socket()
        port = int(sock.getsockname()[1])
        any_host = not is_loopback(self._settings.host)
        self.config.app = Guard(self._web, Sessions(self._settings.token), port=port, any_host=any_host)
        scheme = "http" if self._settings.tls is None else "https"
        self._url = f"{scheme}://{host_port(self._settings.host, port)}"
        self.run(sockets=[sock])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Called by uvicorn."""
        await super().startup(sockets)
        if self.started:
            self._on_ready(self._url)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Called by uvicorn: the signals that end the server. One that is ignored stays ignored."""
        loop = asyncio.get_running_loop()
        numbers = [
            each
            for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            if signal.getsignal(each) is not signal.SIG_IGN
        ]
        for number in numbers:
            loop.add_signal_handler(number, self._end)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _end(self) -> None:
        # the second signal does not wait for open connections
        self.force_exit = self.should_exit
        self.should_exit = True
