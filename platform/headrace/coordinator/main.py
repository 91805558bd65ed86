"""The coordinator's process: `python -m headrace.coordinator.main headrace-coordinator --home PATH ..`.

It starts and ends the control server for workers, REST for clients and the dispatcher between them, and writes the file
in the home that holds their addresses.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import secrets
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.client.discovery import metrics_token_file, token_file
from headrace.client.token_files import ensure_token, required_token
from headrace.core.errors import ExternalError, UserError
from headrace.core.files.private_files import PRIVATE_FILE, make_private_folder
from headrace.core.files.replaced_file import replace_file
from headrace.core.network.hosts import LOOPBACK
from headrace.core.settings import Home
from headrace.tls.checks import checked_files
from headrace.tls.files import TlsFiles

if TYPE_CHECKING:
    from uvicorn import Server

    from headrace.coordinator.rest.access.tokens import Tokens
    from headrace.coordinator.rest.service import ClusterService
    from headrace.processes.spawning import Starter

LOG = logging.getLogger("headrace.coordinator")
COORDINATOR_FILE = "coordinator.json"
KEEP_ALIVE_SECONDS = 75
"""How long a connection without requests is kept. Far longer than our clients reuse one (5 s), because a request that
arrives while the server closes its connection fails.
"""
WARM_UP_AFTER_SECONDS = 0.5
"""Delay before the planning modules are imported. The import holds the interpreter's lock for hundreds of milliseconds,
and clients that wait for the cluster should be answered before that.
"""


@dataclass(frozen=True, slots=True)
class CoordinatorConfig:
    """The configuration of a coordinator. Port 0 means any free port.

    token_file           file with the token of workers and clients. None: the home's file, created if it is missing
    metrics_token_file   file with the token for health and metrics. None: as for token_file
    tls                  TLS files of REST and of the control server. None: neither is encrypted
    """

    home: Path
    host: str = LOOPBACK
    port: int = 0
    grpc_port: int = 0
    token_file: Path | None = None
    metrics_token_file: Path | None = None
    tls: TlsFiles | None = None


async def serve(config: CoordinatorConfig, ended: asyncio.Event | None = None, starter: Starter | None = None) -> None:
    """Runs a coordinator until SIGTERM, SIGINT or a client's shutdown. Raises UserError, ExternalError.

    starter: starts connector hosts; by default each is a fresh interpreter.
    """
    from headrace.coordinator.dispatch.dispatcher import Dispatcher
    from headrace.coordinator.fleet.fleet import Fleet
    from headrace.core.clock import SystemClock
    from headrace.rpc.time_settings import times_from

    folder = config.home / "cluster"
    make_private_folder(folder)
    tokens = _tokens(config)
    over = ended or asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    cluster = _cluster_id(folder)
    leaving_workers = False

    def shutdown() -> None:
        nonlocal leaving_workers
        leaving_workers = True
        loop.call_later(0.2, over.set)  # the client's answer is sent first

    def replaced() -> None:
        LOG.error("another coordinator has taken over the jobs of this one, which ends; workers may stay")
        over.set()

    fleet = Fleet(cluster, times_from(os.environ))
    dispatcher = Dispatcher(Home(config.home), cluster, fleet, SystemClock(), shutdown, starter, on_replaced=replaced)
    grpc_port = await fleet.start(config.host, config.grpc_port, tokens.full, config.tls)
    server, serving, port = await _start_rest(config, dispatcher, tokens)
    try:
        await dispatcher.start()
        # after `start`: a client that finds this file may send requests, and they need the jobs that `start` reads
        _publish(config, folder, port, grpc_port)
        LOG.info("coordinator of cluster %s: REST at port %d, workers at port %d", cluster, port, grpc_port)
        LOG.info("clients and workers show the token in %s", _token_file(config))
        loop.call_later(WARM_UP_AFTER_SECONDS, loop.run_in_executor, None, _warm_up, starter)
        await over.wait()
    finally:
        server.should_exit = True
        await dispatcher.close()
        await fleet.stop(workers=leaving_workers)
        await serving
        _withdraw(folder)


def _warm_up(starter: Starter | None) -> None:
    """Imports the modules that planning needs, so that the first job does not wait for them. A coordinator answers
    requests before that."""
    from headrace.coordinator.dispatch.preparation import load_planning

    try:
        if starter is not None:
            # the template imports in parallel with this process
            starter.ready()
        load_planning()
    except Exception:
        # the first job will raise the same error, and its user will see it
        LOG.exception("planning cannot be loaded")


async def _start_rest(
    config: CoordinatorConfig, service: ClusterService, tokens: Tokens
) -> tuple[Server, asyncio.Task[None], int]:
    import uvicorn

    from headrace.coordinator.rest.app import rest_app
    from headrace.coordinator.rest.connections import bounded_protocol
    from headrace.tls.contexts import rest_context

    app = rest_app(service, tokens)
    settings = uvicorn.Config(
        app,
        host=config.host,
        port=config.port,
        http=bounded_protocol(None if config.tls is None else rest_context(config.tls)),
        log_level="warning",
        ws="none",  # WebSocket upgrades are plain requests here: they need a token
        lifespan="off",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    server = uvicorn.Server(settings)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    sock = settings.bind_socket()
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    return server, serving, int(sock.getsockname()[1])


def _tokens(config: CoordinatorConfig) -> Tokens:
    """Returns the cluster's tokens, which are the same for all runs of a home's coordinator. A file named in the
    configuration must exist, because workers and clients use its token too.
    """
    from headrace.coordinator.rest.access.tokens import Tokens

    home, full, metrics = Home(config.home), config.token_file, config.metrics_token_file
    return Tokens(
        ensure_token(token_file(home)) if full is None else required_token(full),
        ensure_token(metrics_token_file(home)) if metrics is None else required_token(metrics),
    )


def _token_file(config: CoordinatorConfig) -> Path:
    return config.token_file or token_file(Home(config.home))


def _cluster_id(folder: Path) -> str:
    """Returns the same id for all runs of a home's coordinator."""
    file = folder / "id"
    if not file.exists():
        replace_file(file, secrets.token_hex(6).encode(), mode=PRIVATE_FILE)
    return file.read_text().strip()


def _publish(config: CoordinatorConfig, folder: Path, port: int, grpc_port: int) -> None:
    shown = f"[{config.host}]" if ":" in config.host else config.host
    scheme = "http" if config.tls is None else "https"
    document = {
        "url": f"{scheme}://{shown}:{port}",
        "grpc": f"{shown}:{grpc_port}",
        "pid": os.getpid(),
        "token_file": str(_token_file(config)),
    }
    if config.tls is not None:
        document["tls_ca"] = str(config.tls.ca)
    replace_file(folder / COORDINATOR_FILE, json.dumps(document).encode(), mode=PRIVATE_FILE)


def _withdraw(folder: Path) -> None:
    """Deletes the file with this coordinator's addresses; another one that has taken over has replaced it."""
    file = folder / COORDINATOR_FILE
    with contextlib.suppress(OSError, ValueError):
        if json.loads(file.read_text())["pid"] == os.getpid():
            file.unlink()


def main(arguments: list[str] | None = None) -> None:
    """The process's entry point."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    parser = argparse.ArgumentParser(prog="headrace.coordinator.main")
    parser.add_argument("role", choices=["headrace-coordinator"], help="marks the process in lists of processes")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--host", default=LOOPBACK)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--grpc-port", type=int, default=0)
    parser.add_argument("--token-file", type=lambda text: Path(text).absolute())
    parser.add_argument("--metrics-token-file", type=lambda text: Path(text).absolute())
    for name in ("cert", "key", "ca"):
        parser.add_argument(f"--tls-{name}", type=Path)
    given = parser.parse_args(arguments)
    from headrace.coordinator.connector_host.connector_host import PROGRAM as HOST_PROGRAM
    from headrace.processes.template.client import own_starter

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        tls = checked_files(given.tls_cert, given.tls_key, given.tls_ca)
        # the template is forked before this process has threads, because a fork copies locks that other threads hold
        starter = own_starter([HOST_PROGRAM])
        config = CoordinatorConfig(
            given.home, given.host, given.port, given.grpc_port, given.token_file, given.metrics_token_file, tls
        )
        try:
            asyncio.run(serve(config, starter=starter))
        finally:
            starter.close()
    except (UserError, ExternalError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - the process's own stderr
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
