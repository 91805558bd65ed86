"""Following a job to its end, and what a command says then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from headrace.cli.arguments import print_json
from headrace.cli.errors import FAILED

if TYPE_CHECKING:
    from headrace.client.http import Client
    from headrace.client.models import JobStatus

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def follow(client: Client, job: str) -> JobStatus:
    """Until the job has ended; its state is told on stderr whenever it changes."""
    told = ""

    def tell(status: JobStatus) -> None:
        nonlocal told
        if status.state != told:
            told = status.state
            typer.echo(f"{job}: {told}", err=True)

    return client.wait(job, on_status=tell)


def print_end(status: JobStatus, *, as_json: bool) -> None:
    """How a job ended, and the exit code that says so."""
    if as_json:
        print_json({"job_id": status.job_id, "state": status.state, "failure": status.failure})
    if status.failure and status.state == "FAILED":
        typer.echo(f"error: {status.failure}", err=True)
    if status.state != "FINISHED":
        raise typer.Exit(FAILED)
