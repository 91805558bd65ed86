"""`headrace coordinator`: a coordinator in the foreground, for clusters that are assembled by hand; with --resources it
makes its own workers."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.arguments import duration_ms
from headrace.cli.cluster.election_options import HaOrVariable, KeyFileOrVariable, LedgerOrVariable
from headrace.cli.cluster.tls_options import TlsCa, TlsCert, TlsKey
from headrace.cli.errors import reporting_errors
from headrace.client.token_files import TOKEN_FILE_VARIABLE
from headrace.resources.driver import ResourceTarget

Resources = Annotated[
    ResourceTarget | None,
    typer.Option(
        "--resources",
        help="Start the workers that jobs need: as processes of this host (local), or as pods (kubernetes). "
        "Default: others start them.",
        show_default=False,
    ),
]
WorkerSlots = Annotated[
    int | None,
    typer.Option(min=1, max=256, help="With --resources: slots of each worker. Default: 1."),
]
WorkersMin = Annotated[
    int | None,
    typer.Option(min=0, help="With --resources: workers that stay without a job. Default: 0."),
]
WorkersMax = Annotated[
    int | None,
    typer.Option(min=1, help="With --resources: the most workers. Default: 100."),
]
WorkerIdle = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="With --resources: a worker without a job is released after this time. Default: 60s.",
    ),
]
WorkersFile = Annotated[
    Path | None,
    typer.Option(help="With --resources kubernetes: what pods are made of; `headrace cluster start` writes it."),
]
WorkerAddress = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="With --resources: where workers reach whoever leads. Default: the election, or this coordinator.",
    ),
]


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
        *_resource_arguments(resources, worker_slots, workers_min, workers_max, worker_idle),
        *_pod_arguments(resources, workers_file, worker_address),
        *(() if tls is None else tls.arguments()),
    ]
    os.environ["HEADRACE_HOME"] = str(home.root)
    # replaces this process: the role is in its command line, and signals reach it directly
    os.execv(command[0], command)


def _given(flag: str, value: str | Path | None) -> tuple[str, ...]:
    return () if value is None else (flag, str(value))


def _pod_arguments(resources: ResourceTarget | None, file: Path | None, address: str | None) -> tuple[str, ...]:
    """The arguments of the coordinator's process about workers that are pods. Raises UserError."""
    from headrace.core.errors import UserError

    if resources is ResourceTarget.YARN:
        raise UserError(
            "--resources yarn is for the coordinator of an application on YARN",
            remedy="headrace cluster start --target yarn starts one",
        )
    if (file is not None) != (resources is ResourceTarget.KUBERNETES):
        raise UserError(
            "--workers-file and --resources kubernetes go together",
            remedy="give both: `headrace cluster start --target kubernetes` does",
        )
    if address is not None and resources is None:
        raise UserError("--worker-address means nothing without --resources", remedy="leave it out")
    named = () if file is None else ("--workers-file", str(file))
    return (*named, *(() if address is None else ("--worker-address", address)))


def _resource_arguments(
    resources: ResourceTarget | None,
    slots: int | None,
    workers_min: int | None,
    workers_max: int | None,
    idle: str | None,
) -> tuple[str, ...]:
    """The arguments of the coordinator's process. Raises UserError for options that do not fit."""
    from headrace.coordinator.provisioning.config import ProvisioningConfig
    from headrace.core.errors import UserError

    given = {"--worker-slots": slots, "--workers-min": workers_min, "--workers-max": workers_max, "--worker-idle": idle}
    named = [flag for flag, value in given.items() if value is not None]
    if resources is None:
        if named:
            raise UserError(f"{named[0]} means nothing without --resources", remedy="give --resources too")
        return ()
    idle_ms = None if idle is None else duration_ms("--worker-idle", idle)
    sizes = {"slots": slots or 1, "workers_min": workers_min, "workers_max": workers_max, "idle_ms": idle_ms}
    config = ProvisioningConfig(**{name: size for name, size in sizes.items() if size is not None})
    return (
        *("--resources", resources.value, "--worker-slots", str(config.slots)),
        *("--workers-min", str(config.workers_min), "--workers-max", str(config.workers_max)),
        *("--worker-idle-ms", str(config.idle_ms)),
    )
