"""The options of a coordinator that makes its own workers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.arguments import duration_ms
from headrace.resources.target import ResourceTarget

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


def pod_arguments(resources: ResourceTarget | None, file: Path | None, address: str | None) -> tuple[str, ...]:
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


def resource_arguments(
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
