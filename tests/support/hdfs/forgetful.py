"""A way to a NameNode that loses answers: the NameNode does what it is asked, and the client does not learn of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from support.hdfs.site import HOST
from support.patience import WAIT_SECONDS


class ForgetfulWay(ThreadingHTTPServer):
    """Forwards requests to `page`, and loses the next answer to each operation in `losing`."""

    daemon_threads = True

    def __init__(self, page: str) -> None:
        super().__init__((HOST, 0), _Handler)
        self.page = page
        self.losing: set[str] = set()

    @property
    def address(self) -> str:
        """The URL at which it listens."""
        return f"http://{HOST}:{self.server_port}"

    def loses(self, path: str) -> bool:
        """Whether the answer to this request is to be lost; the next one is not."""
        lost = {each for each in self.losing if f"op={each}&" in path}
        self.losing -= lost
        return bool(lost)


class _Handler(BaseHTTPRequestHandler):
    server: ForgetfulWay

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Says nothing."""

    def _forward(self) -> None:
        connection = HTTPConnection(self.server.page, timeout=WAIT_SECONDS)
        try:
            connection.request(self.command, self.path)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if self.server.loses(self.path):
            return  # HTTP/1.0: the connection closes without an answer
        self.send_response(answer.status)
        for name in ("Location", "Content-Type"):
            if (value := answer.headers.get(name)) is not None:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_DELETE = _forward  # noqa: N815


@contextmanager
def forgetful_way(page: str) -> Iterator[ForgetfulWay]:
    """Listens until the end. page: a NameNode's HTTP address, host and port."""
    with ForgetfulWay(page) as way:
        thread = threading.Thread(target=way.serve_forever, name="forgetful-way")
        thread.start()
        try:
            yield way
        finally:
            way.shutdown()
            thread.join()
