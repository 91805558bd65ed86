"""A cluster that a system makes for one job or program, and how `headrace submit` reports it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from headrace.cli.arguments import print_json
from headrace.cli.jobs.job_end import INTERRUPTED, follow, print_end, require_opened
from headrace.core.errors import ExternalError, UserError

if TYPE_CHECKING:
    from headrace.client.http import Client
    from headrace.client.requests import SubmitRequest


class MadeCluster(NamedTuple):
    """coordinator: URL by which clients find it; shown: what the system calls it."""

    name: str
    coordinator: str
    shown: str


def require_running(name: str | None, config: Path | None) -> str:
    """The name of a cluster that runs. Raises UserError if none is named, or one is described."""
    if name is None:
        raise UserError("no cluster is named", remedy="give --name NAME; --mode per-job makes one for the job")
    if config is not None:
        raise UserError("--config describes no cluster that runs", remedy="leave it out, or give --mode per-job")
    return name


def keyed(request: SubmitRequest) -> SubmitRequest:
    """The request with the key by which the cluster's attendant submits it, too: there is one job of it."""
    from headrace.job_cluster.attendant import THE_JOB

    return request.model_copy(update={"key": THE_JOB})


def report_job(made: MadeCluster, request: SubmitRequest, *, wait: bool, as_json: bool) -> None:
    """Submits the keyed request as the attendant does, prints the job, and follows it to its end, or until it runs."""
    from headrace.client.discovery import connect

    with ExitStack() as until_here:
        job: str | None = None
        try:
            client = until_here.enter_context(connect(made.coordinator))
            job = client.submit(request)
        except ExternalError as error:
            if wait:
                raise
            # its attendant has submitted it: only this host does not reach the cluster
            typer.echo(f"the cluster runs the job, and does not answer here: {error}", err=True)
        if not as_json:
            typer.echo(job or made.shown)
        typer.echo(f"its cluster: --coordinator {made.coordinator}", err=True)
        if job is not None:
            _follow(client, job, wait=wait, as_json=as_json)
    if as_json and not wait:
        print_json({"job_id": job, "coordinator": made.coordinator, "name": made.name})


def report_application(made: MadeCluster, *, as_json: bool) -> None:
    """Prints the cluster of a program."""
    if as_json:
        named = {"coordinator": made.coordinator, "name": made.name}
        print_json({"job_id": None, "application": made.shown, **named})
    else:
        typer.echo(made.shown)
    typer.echo(f"its cluster: --coordinator {made.coordinator}", err=True)


def _follow(client: Client, job: str, *, wait: bool, as_json: bool) -> None:
    try:
        if wait:
            print_end(follow(client, job), as_json=as_json)
        else:
            require_opened(client, job, as_json=as_json)
    except KeyboardInterrupt:
        typer.echo("\nthe job goes on", err=True)
        raise typer.Exit(INTERRUPTED) from None
