"""The page of a run: a process of its own, and the REST API of the run on loopback, whose client it is.

The API runs in the run's event loop. Page and API end with the run.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.client.discovery import COORDINATOR_VARIABLE, cluster_folder
from headrace.client.token_files import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE, ensure_token
from headrace.coordinator.rest.access.tokens import Tokens
from headrace.coordinator.rest.app import rest_app
from headrace.coordinator.rest.server import RestServer
from headrace.core.files.home_files import private_opener
from headrace.core.network.hosts import LOOPBACK, host_port
from headrace.core.settings import Home
from headrace.local.cluster.commands import PAGE_ROLE
from headrace.local.runs.run_service import RunService
from headrace.processes.ports import free_port, is_free
from headrace.tls.files import CA_VARIABLE

DEFAULT_PORT = 8490
"""As of `headrace ui`, so that an open browser finds the next run again. A free one if it is taken."""
STARTS_MAX = 2
CONNECT_SECONDS = 0.1
END_SECONDS = 5.0


class RunPage:
    """The page's process, once the run's API listens."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._port = DEFAULT_PORT if is_free(DEFAULT_PORT) else free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._address: RunAddress | None = None
        self._starts = 0
        self._is_told = False

    @property
    def log(self) -> Path:
        """The output of the process: of the last run with a page."""
        return self._home.root / "runs" / "page.log"

    def start(self, address: RunAddress) -> None:
        """Starts the process, and does not wait for it."""
        self._address = address
        self._starts += 1
        environment = {
            **{name: value for name, value in os.environ.items() if name not in {TOKEN_VARIABLE, CA_VARIABLE}},
            COORDINATOR_VARIABLE: address.url,
            TOKEN_FILE_VARIABLE: str(address.token_file),
        }
        arguments = (PAGE_ROLE, "--home", str(self._home.root), "--port", str(self._port), "--with-parent")
        with open(self.log, "wb", opener=private_opener) as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "headrace.ui.main", *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,  # Ctrl-C in a terminal signals only the run
            )

    def news(self) -> str | None:
        """Returns the next message for the user: the link that opens the page, or its end; None: no message."""
        if self._process is None or self._address is None or self._is_told:
            return None
        if self._process.poll() is not None:
            if self._starts < STARTS_MAX:
                # another process may have taken the port since it was seen free
                self._port = free_port()
                self.start(self._address)
                return None
            self._is_told = True
            return f"the page has ended with exit code {self._process.returncode}; the run goes on. See {self.log}"
        if not self._listens():
            return None
        self._is_told = True
        token = ensure_token(cluster_folder(self._home) / "ui-token")
        return f"page: http://{host_port(LOOPBACK, self._port)}/login?token={token}"

    def _listens(self) -> bool:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.settimeout(CONNECT_SECONDS)
            return probe.connect_ex((LOOPBACK, self._port)) == 0

    def close(self) -> None:
        """Ends the process."""
        if self._process is None:
            return
        assert self._process.stdin is not None, "it is a pipe"
        self._process.stdin.close()
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def run_page(home: Home) -> Iterator[RunPage]:
    """The page of one run, whose process ends with the context."""
    page = RunPage(home)
    try:
        yield page
    finally:
        page.close()


CLOSE_SECONDS = 1.0
"""How long a request that is under way delays the end of a run."""


@dataclass(frozen=True, slots=True)
class RunAddress:
    """The URL of a run's API, and the file with its token, which goes with the run."""

    url: str
    token_file: Path


@asynccontextmanager
async def serving(service: RunService, folder: Path) -> AsyncIterator[RunAddress]:
    """Serves at a free port. folder: the run's own, where the token is kept."""
    full, metrics = folder / "token", folder / "metrics-token"
    server = RestServer(rest_app(service, Tokens(ensure_token(full), ensure_token(metrics))))
    port = await server.start(LOOPBACK, 0)
    try:
        yield RunAddress(f"http://{host_port(LOOPBACK, port)}", full)
    finally:
        await server.close(CLOSE_SECONDS)
        await service.output.close()
