"""`headrace worker`: one worker of a cluster, in the foreground."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.arguments import duration_ms, size_bytes
from headrace.cli.cluster.tls_options import TlsCa, TlsCert, TlsKey
from headrace.cli.errors import reporting_errors

if TYPE_CHECKING:
    from headrace.core.settings import Home


@reporting_errors()
def worker(
    coordinator: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT|URL",
            help="The coordinator's control plane; several addresses with commas; or the election's URL.",
            show_default=False,
        ),
    ],
    slots: Annotated[int | None, typer.Option(min=1, help="Slot processes. Default: one a core.")] = None,
    host: Annotated[str | None, typer.Option(help="Address that other workers reach this one by.")] = None,
    id_: Annotated[str | None, typer.Option("--id", help="The worker's id. Default: this host's name.")] = None,
    memory_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="A slot that uses more memory is killed, such as 4g.")
    ] = None,
    token: Annotated[str, typer.Option(envvar="HEADRACE_TOKEN", help="The cluster's secret.")] = "",
    token_file: Annotated[Path | None, typer.Option(help="A file with the secret. Default: that of the home.")] = None,
    reconnect_for: Annotated[
        str | None, typer.Option(metavar="DURATION", help="End after this time without a coordinator, such as 5m.")
    ] = None,
    drain: Annotated[
        str | None,
        typer.Option(
            envvar="HEADRACE_DRAIN",
            metavar="DURATION",
            help="At SIGTERM its jobs take a checkpoint and move to other workers first, for at most this time.",
        ),
    ] = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
) -> None:
    """Run one worker of a cluster until Ctrl-C, SIGTERM or the coordinator's word."""
    import logging

    from headrace.processes.template.client import own_starter
    from headrace.worker.supervision.slot_process import PROGRAM

    # forked before this process has threads
    starter = own_starter([PROGRAM])
    from headrace.core.settings import Home
    from headrace.rpc.time_settings import times_from
    from headrace.tls.checks import checked_files
    from headrace.worker.supervision.advertise import own_address
    from headrace.worker.supervision.supervisor import Supervisor, WorkerConfig

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    name = id_ or socket.gethostname()
    config = WorkerConfig(
        worker=name,
        coordinator=coordinator,
        slots=slots or os.cpu_count() or 1,
        host=host or own_address(coordinator),
        folder=Home.from_environment().root / "workers" / name,
        token=_token(Home.from_environment(), coordinator, token_file, token),
        tls=checked_files(tls_cert, tls_key, tls_ca),
        times=times_from(os.environ),
        memory_limit_bytes=None if memory_limit is None else size_bytes("--memory-limit", memory_limit),
        reconnect_for_ms=None if reconnect_for is None else duration_ms("--reconnect-for", reconnect_for),
        drain_ms=0 if drain is None else duration_ms("--drain", drain),
        starter=starter,
        secrets=None if token_file is None else token_file.absolute().parent,
    )
    try:
        Supervisor(config).run()
    finally:
        starter.close()


def _token(home: Home, coordinator: str, file: Path | None, token: str) -> str:
    """Returns the token of the option, else the home's own if the coordinator is on this host. Raises UserError."""
    from headrace.client.discovery import recorded_token
    from headrace.client.token_files import given_token
    from headrace.core.errors import UserError
    from headrace.core.network.mutual_proof import WHERE_A_TOKEN_LIES
    from headrace.worker.supervision.advertise import may_have_own_token

    found = given_token(file, token)
    if found is None and may_have_own_token(coordinator):
        found = recorded_token(home)
    if found is None:
        raise UserError(
            f"the coordinator at {coordinator} wants its cluster's token",
            remedy=f"give --token-file FILE, or set HEADRACE_TOKEN. {WHERE_A_TOKEN_LIES}",
        )
    return found
