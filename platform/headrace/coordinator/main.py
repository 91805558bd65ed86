"""The coordinator's process: `python -m headrace.coordinator.main headrace-coordinator --home PATH ..`.

It runs a `leading.candidate`. A coordinator with standbys that leads no more replaces its process image by a new one,
which is a standby: nothing of the term that is over survives in it.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.coordinator.leading.config import CoordinatorConfig, ResourcesConfig
from headrace.coordinator.provisioning.config import ProvisioningConfig
from headrace.coordinator.store.shared_ledger import shared_ledger
from headrace.core.errors import ExternalError, UserError
from headrace.core.files.home_files import make_private_folder
from headrace.core.network.hosts import LOOPBACK
from headrace.resources.driver import ResourceTarget
from headrace.tls.checks import checked_files

if TYPE_CHECKING:
    from headrace.coordinator.leading.config import Hosting
    from headrace.processes.spawning import Starter

LOG = logging.getLogger("headrace.coordinator")


async def serve(
    config: CoordinatorConfig,
    ended: asyncio.Event | None = None,
    starter: Starter | None = None,
    hosting: Hosting | None = None,
) -> bool:
    """Runs a coordinator until SIGTERM, SIGINT or a client's shutdown, or until another one leads. Returns whether a
    standby should take its place. Raises UserError, ExternalError.

    starter: starts connector hosts; by default each is a fresh interpreter. hosting: the system that runs this process.
    """
    from headrace.coordinator.leading.candidate import Candidate

    make_private_folder(config.home / "cluster")
    over = ended or asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    gave_up = await Candidate(config, over, starter, hosting).run()
    return gave_up and config.election is not None


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
    parser.add_argument("--election", help="URL of the election; without it there is no standby")
    parser.add_argument("--ledger", help="URL of the ledger that coordinators share")
    parser.add_argument("--key-file", type=lambda text: Path(text).absolute())
    parser.add_argument("--advertise", help="host name or address by which others reach this one")
    parser.add_argument("--resources", choices=[each.value for each in ResourceTarget])
    parser.add_argument("--worker-address")
    parser.add_argument("--workers-file", type=lambda text: Path(text).absolute())
    parser.add_argument("--worker-slots", type=int, default=1)
    parser.add_argument("--workers-min", type=int, default=0)
    parser.add_argument("--workers-max", type=int, default=100)
    parser.add_argument("--worker-idle-ms", type=int, default=60_000)
    for name in ("cert", "key", "ca"):
        parser.add_argument(f"--tls-{name}", type=Path)
    options = parser.parse_args(arguments)
    from headrace.coordinator.connector_host.connector_host import HOST_PROGRAMS
    from headrace.processes.template.client import own_starter

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        # the template is forked before this process has threads, because a fork copies locks that other threads hold
        starter = own_starter(HOST_PROGRAMS)
        try:
            is_standby_next = asyncio.run(serve(_config(options), starter=starter))
        finally:
            starter.close()
    except (UserError, ExternalError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - the process's own stderr
        raise SystemExit(1) from error
    if is_standby_next:
        LOG.info("starting again as a standby")
        os.execv(sys.executable, sys.orig_argv)


def _config(given: argparse.Namespace) -> CoordinatorConfig:
    return CoordinatorConfig(
        home=given.home,
        host=given.host,
        port=given.port,
        grpc_port=given.grpc_port,
        token_file=given.token_file,
        metrics_token_file=given.metrics_token_file,
        tls=checked_files(given.tls_cert, given.tls_key, given.tls_ca),
        election=given.election,
        ledger=shared_ledger(given.election, given.ledger, given.key_file),
        advertise=given.advertise,
        resources=None if given.resources is None else _resources(given),
    )


def _resources(given: argparse.Namespace) -> ResourcesConfig:
    provisioning = ProvisioningConfig(
        given.worker_slots, given.workers_min, given.workers_max, idle_ms=given.worker_idle_ms
    )
    return ResourcesConfig(
        ResourceTarget(given.resources), provisioning, given.worker_address, workers_file=given.workers_file
    )


if __name__ == "__main__":
    main()
