"""`headrace attend`: the attendant in a pod of a cluster that serves one job or application. Its manifest calls it."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.arguments import duration_ms
from headrace.cli.errors import FAILED, reporting_errors
from headrace.core.errors import UserError


@reporting_errors()
def attend(
    election: Annotated[str, typer.Option(metavar="URL", help="By which the leader is found.")],
    coordinator: Annotated[str, typer.Option(metavar="URL", help="The coordinator in the same pod.")],
    token_file: Annotated[Path, typer.Option(help="A file with the cluster's secret.")],
    linger: Annotated[str, typer.Option(metavar="DURATION", help="How long the cluster answers after the end.")],
    deployment: Annotated[
        str | None, typer.Option(help="The cluster's Deployment, which is deleted at the end.", show_default=False)
    ] = None,
    request: Annotated[Path | None, typer.Option(help="A file with the job.")] = None,
    program: Annotated[str | None, typer.Option(help="A Python program that submits jobs.")] = None,
    application: Annotated[
        bool, typer.Option("--application", help="Wait for the program of another container of this pod.")
    ] = False,
) -> None:
    """Serve one job, or run one program, on the cluster of this pod; then delete the cluster."""
    from headrace.client.requests import SubmitRequest
    from headrace.deployment.kubernetes.pod_part import PodPart
    from headrace.job_cluster.attendant import Attendant, submitted

    if [request is not None, program is not None, application].count(True) != 1:
        raise UserError(
            "an attendant serves one job or one program", remedy="give --request, --program or --application"
        )
    part = PodPart(election, coordinator, token_file, deployment)
    attendant = Attendant(part, linger_s=duration_ms("--linger", linger) / 1_000)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: attendant.ask_to_end())
    if request is not None:
        state = attendant.job(submitted(part, SubmitRequest.model_validate_json(request.read_bytes())))
        typer.echo(f"the job is {state or 'not known'}", err=True)
        raise typer.Exit(0 if state == "FINISHED" else FAILED)
    if application:
        raise typer.Exit(attendant.application() or 0)
    raise typer.Exit(attendant.program([str(program)]))
