"""A real Chromium, and web sites for it: pages that a test wrote, on addresses of their own.

`Site` serves one page, and passes requests for `/v1/` on to another server as a proxy in front of it would, so that the
page is of the same origin as what answers there. It records what it has passed on.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import pytest

from support.missing_tool import skip_or_fail
from support.processes.running import WAIT_SECONDS

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_REMEDY = "install it (Debian: apt install chromium-headless-shell), or run the tests by .ci/run, which does"
_HOP_BY_HOP = {"connection", "transfer-encoding", "date", "server"}


def chromium() -> str:
    """The program. Skips the test where there is none; fails it in continuous integration, which has to have one."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        skip_or_fail(f"there is no Chromium; {_REMEDY}")
    return found


@contextmanager
def browsing(url: str, folder: Path, *, names: str) -> Iterator[None]:
    """A Chromium that has opened the page. names: hosts that it takes for 127.0.0.1, with `*` as a wildcard."""
    command = [
        chromium(),
        "--headless",
        "--no-sandbox",  # which wants more than root has in a container
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--no-first-run",
        "--no-proxy-server",
        "--remote-debugging-port=0",  # it stays open
        f"--user-data-dir={folder / 'profile'}",
        f"--host-resolver-rules=MAP {names} 127.0.0.1",
        url,
    ]
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            yield
        finally:
            # its children are of its group
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()


@dataclass(frozen=True, slots=True)
class Passed:
    """A request that was passed on, and the status of its answer."""

    method: str
    path: str
    status: int


class Site:
    """A web site on a free port of loopback: `/` is the page, and what it posts to `/done` is what it has found."""

    def __init__(self, page: str, upstream: str | None = None) -> None:
        site = self
        self.page, self.passed, self._done = page, list[Passed](), Queue[dict[str, Any]]()
        self._upstream = None if upstream is None else urlsplit(upstream).netloc

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.startswith("/v1/"):
                    site._pass_on(self)
                else:
                    site._answer(self, 200, {"Content-Type": "text/html"}, site.page.encode())

            def do_POST(self) -> None:
                if self.path != "/done":
                    site._pass_on(self)
                    return
                site._done.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                site._answer(self, 204, {}, b"")

            def do_DELETE(self) -> None:
                site._pass_on(self)

            def do_OPTIONS(self) -> None:
                site._pass_on(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="site")

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.server_port

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def found(self) -> dict[str, Any]:
        """What its page has found, once it has ended."""
        try:
            return self._done.get(timeout=WAIT_SECONDS)
        except Empty:
            pytest.fail("the page did not come to its end")

    def _pass_on(self, asked: BaseHTTPRequestHandler) -> None:
        if self._upstream is None:
            self._answer(asked, 404, {}, b"")
            return
        connection = http.client.HTTPConnection(self._upstream, timeout=WAIT_SECONDS)
        body = asked.rfile.read(int(asked.headers.get("Content-Length", 0)))
        connection.putrequest(asked.command, asked.path, skip_host=True, skip_accept_encoding=True)
        for name, value in asked.headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        self.passed.append(Passed(asked.command, asked.path, answer.status))
        headers = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP_BY_HOP}
        self._answer(asked, answer.status, headers, answer.read())
        connection.close()

    @staticmethod
    def _answer(asked: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes) -> None:
        asked.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            asked.send_header(name, value)
        asked.end_headers()
        with suppress(BrokenPipeError, ConnectionResetError):
            asked.wfile.write(body)
