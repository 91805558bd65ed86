"""`headrace coordinator`: a coordinator in the foreground, for clusters that are assembled by hand."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.cluster.election_options import HaOrVariable, KeyFileOrVariable, LedgerOrVariable
from headrace.cli.cluster.resource_options import (
    Resources,
    WorkerAddress,
    WorkerIdle,
    WorkersFile,
    WorkerSlots,
    WorkersMax,
    WorkersMin,
    pod_arguments,
    resource_arguments,
)
from headrace.cli.cluster.tls_options import TlsCa, TlsCert, TlsKey
from headrace.cli.errors import reporting_errors
from headrace.client.token_files import TOKEN_FILE_VARIABLE


@reporting_errors()
def coordinator(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the REST API; 0 takes a free one.")] = 8480,
    grpc_port: Annotated[int, typer.Option(min=0, max=65535, help="For workers; 0 takes a free one.")] = 8481,
    token_file: Annotated[
        Path | None,
        typer.Option(
            envvar=TOKEN_FILE_VARIABLE,
            help="File with the cluster's secret. Default: cluster/token of HEADRACE_HOME, created if missing.",
        ),
    ] = None,
    metrics_token_file: Annotated[
        Path | None,
        typer.Option(
            envvar="HEADRACE_METRICS_TOKEN_FILE",
            help="File with a token that reads health and metrics only. Default: cluster/metrics-token.",
        ),
    ] = None,
    ha: HaOrVariable = None,
    ledger: LedgerOrVariable = None,
    key_file: KeyFileOrVariable = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            envvar="HEADRACE_ADVERTISE",
            metavar="HOST",
            help="Name or address by which others reach this one. Default: --host.",
        ),
    ] = None,
    resources: Resources = None,
    worker_slots: WorkerSlots = None,
    workers_min: WorkersMin = None,
    workers_max: WorkersMax = None,
    worker_idle: WorkerIdle = None,
    workers_file: WorkersFile = None,
    worker_address: WorkerAddress = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
) -> None:
    """Run a coordinator until Ctrl-C. Jobs are suspended then, and go on when it is started again. With --resources it
    starts the workers that jobs need, and releases them when no job does."""
    from headrace.coordinator.store.shared_ledger import shared_ledger
    from headrace.core.settings import Home
    from headrace.tls.files import tls_files

    shared_ledger(ha, ledger, key_file)  # its errors end this command, not the process that follows
    home = Home.from_environment()
    tls = tls_files(tls_cert, tls_key, tls_ca)
    command = [
        *(sys.executable, "-m", "headrace.coordinator.main", "headrace-coordinator"),
        *("--home", str(home.root), "--host", host, "--port", str(port), "--grpc-port", str(grpc_port)),
        *_given("--token-file", token_file),
        *_given("--metrics-token-file", metrics_token_file),
        *_given("--election", ha),
        *_given("--ledger", ledger),
        *_given("--key-file", key_file),
        *_given("--advertise", advertise),
        *resource_arguments(resources, worker_slots, workers_min, workers_max, worker_idle),
        *pod_arguments(resources, workers_file, worker_address),
        *(() if tls is None else tls.arguments()),
    ]
    os.environ["HEADRACE_HOME"] = str(home.root)
    # replaces this process: the role is in its command line, and signals reach it directly
    os.execv(command[0], command)


def _given(flag: str, value: str | Path | None) -> tuple[str, ...]:
    return () if value is None else (flag, str(value))
