"""Answers the probes of an operator's pod and shows its metrics, in threads of its own.

    GET /metrics   Prometheus' text format
    GET /healthz   200: it waits to be elected, or its event loop turns; 503: it leads, and its loop stands still

A loop that stands still handles nothing, while the elector, a thread, renews the Lease. The kubelet ends the
process, and the other replica is elected. The probe succeeds while the API server does not answer: the next process
would not reach it either.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from headrace.core.errors import ExternalError
from headrace.kubernetes_operator.resources.kinds import Kind

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Outcome = Literal["done", "conflict", "failed"]


class Figures:
    """Thread-safe."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._leading = Gauge(
            "headrace_operator_leading", "1: this operator handles resources.", registry=self._registry
        )
        self._resources = Gauge(
            "headrace_operator_resources", "Resources that are handled.", ["kind"], registry=self._registry
        )
        self._rounds = Counter("headrace_operator_rounds", "Rounds.", ["kind", "outcome"], registry=self._registry)
        self._seconds = Histogram(
            "headrace_operator_round_seconds", "Durations of rounds.", ["kind"], registry=self._registry
        )

    def leads(self) -> None:
        """Notes that this operator was elected."""
        self._leading.set(1)

    def handles(self, kind: Kind, change: int) -> None:
        """Notes resources that are handled from now on; negative: that are not any more."""
        self._resources.labels(kind.name).inc(change)

    def round(self, kind: Kind, outcome: Outcome, seconds: float) -> None:
        """Notes a round."""
        self._rounds.labels(kind.name, outcome).inc()
        self._seconds.labels(kind.name).observe(seconds)

    def text(self) -> bytes:
        """All of them."""
        return generate_latest(self._registry)


BEAT_SECONDS = 1.0
STILL_SECONDS = 30.0
"""A loop without a beat for so long stands still."""
REQUEST_SECONDS = 10.0
"""How long a client may take to send its request."""


class Health:
    """The health of one operator, and its figures. Thread-safe."""

    def __init__(self) -> None:
        self.figures = Figures()
        self._beat_s: float | None = None

    @property
    def is_good(self) -> bool:
        """Whether the operator waits to be elected, or its loop turns."""
        beat_s = self._beat_s
        return beat_s is None or time.monotonic() - beat_s < STILL_SECONDS

    async def beat(self) -> None:
        """Notes that the loop turns, until it is canceled."""
        while True:
            self._beat_s = time.monotonic()
            await asyncio.sleep(BEAT_SECONDS)


@contextmanager
def probes(health: Health, port: int | None) -> Iterator[None]:
    """Inside, probes are answered at the port of all addresses. port: None: there are none. Raises ExternalError if the
    port is taken."""
    if port is None:
        yield
        return
    try:
        server = _Server(health, port)
    except OSError as error:
        raise ExternalError(
            f"probes cannot be answered at port {port}: {error.strerror}", remedy="choose another --probe-port"
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="headrace-probes", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    # a pod has addresses of either family, or of both
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def __init__(self, health: Health, port: int) -> None:
        self.health = health
        super().__init__(("", port), _Handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # not HTTPServer's, which asks the DNS for the name of this host
        TCPServer.server_bind(self)


class _Handler(BaseHTTPRequestHandler):
    timeout = REQUEST_SECONDS

    def do_GET(self) -> None:
        """Answers one request."""
        assert isinstance(self.server, _Server)
        health = self.server.health
        match self.path:
            case "/metrics":
                self._answer(200, health.figures.text(), MEDIA_TYPE)
            case "/healthz" if health.is_good:
                self._answer(200, b"ok\n")
            case "/healthz":
                self._answer(503, b"the event loop stands still\n")
            case _:
                self.send_error(404)

    def _answer(self, status: int, text: bytes, media_type: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in http.server
        """Logs nothing: there is a probe every few seconds."""
