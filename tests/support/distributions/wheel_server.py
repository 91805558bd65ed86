"""Wheels of this environment over HTTP on loopback, where pip of a container on the host's network finds them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path

from support.distributions.wheels import write_wheel


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served_wheels(names: Iterable[str], folder: Path) -> Iterator[str]:
    """The wheels of these distributions are written into a folder; inside, the URL lists and serves them."""
    for name in sorted(names):
        write_wheel(metadata.distribution(name), folder)
    handler = functools.partial(_Handler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
