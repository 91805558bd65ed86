"""Serves the REST API of one run on loopback, in the run's event loop, for the run's page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.client.token_files import ensure_token
from headrace.coordinator.rest.access.tokens import Tokens
from headrace.coordinator.rest.app import rest_app
from headrace.coordinator.rest.server import RestServer
from headrace.core.network.hosts import LOOPBACK, host_port
from headrace.local.runs.run_service import RunService

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
