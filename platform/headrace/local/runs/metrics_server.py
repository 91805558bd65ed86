"""Serves the metrics of one run in Prometheus' text format, on loopback, in threads of their own.

A scrape reads the values that the run has published last, so it neither waits for the run nor delays it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from headrace.coordinator.monitoring.exposition import MEDIA_TYPE, metrics_text
from headrace.coordinator.monitoring.values import JobValues
from headrace.core.errors import UserError
from headrace.core.network.hosts import LOOPBACK

PATH = "/metrics"
HOSTS = frozenset({LOOPBACK, "localhost"})
"""The names under which a client may call the server."""
REQUEST_S = 10.0
"""How long a client may take to send its request, in seconds."""


class RunMetrics:
    """The newest values of a run. One thread publishes, others read."""

    def __init__(self) -> None:
        self._newest: JobValues | None = None

    def publish(self, values: JobValues) -> None:
        """Replaces the values."""
        self._newest = values

    def text(self) -> str:
        """The values as Prometheus text; before the first only the definitions."""
        newest = self._newest
        return metrics_text(() if newest is None else (newest,))


@contextmanager
def served(port: int) -> Iterator[RunMetrics]:
    """Serves metrics at `http://127.0.0.1:PORT/metrics` while the block runs. Raises UserError if the port is taken."""
    metrics = RunMetrics()
    try:
        server = ThreadingHTTPServer((LOOPBACK, port), _handler(metrics))
    except OSError as error:
        raise UserError(
            f"--metrics-port {port}: the port cannot be opened: {error.strerror}", remedy="name another port"
        ) from error
    # a client that keeps its connection must not delay the end of the run
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield metrics
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(metrics: RunMetrics) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers GET /metrics."""

        timeout = REQUEST_S

        def do_GET(self) -> None:
            # a page of another site that reaches loopback under its own name (DNS rebinding) reads nothing
            if self.headers.get("Host", "").partition(":")[0] not in HOSTS:
                self.send_error(403, "metrics are for this host")
                return
            if self.path.partition("?")[0] != PATH:
                self.send_error(404, f"metrics are at {PATH}")
                return
            body = metrics.text().encode()
            self.send_response(200)
            self.send_header("Content-Type", MEDIA_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, _text: str, *arguments: object) -> None:
            """Logs nothing: stderr has the progress of the run."""

    return Handler
