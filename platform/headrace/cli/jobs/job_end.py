"""Follows a job to its end, and reports the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from headrace.cli.arguments import print_json
from headrace.cli.errors import FAILED, exit_code_of

if TYPE_CHECKING:
    from headrace.client.http import Client
    from headrace.client.models import JobStatus

OPENED_SECONDS = 30.0
"""How long the command waits for a job to open its sources and sinks."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, by the shells' convention."""


def follow(client: Client, job: str) -> JobStatus:
    """Waits until the job has ended; prints its state on stderr whenever it changes."""
    told = ""

    def tell(status: JobStatus) -> None:
        nonlocal told
        if status.state != told:
            told = status.state
            typer.echo(f"{job}: {told}", err=True)

    return client.wait(job, on_status=tell)


def require_opened(client: Client, job: str, *, as_json: bool) -> None:
    """Waits until the job's sources and sinks have opened; their refusal also ends the command."""
    status = client.wait_opened(job, timeout_s=OPENED_SECONDS)
    if status.state == "FAILED":
        print_end(status, as_json=as_json, code=_code_of(client, job))
    if status.attempt == 0 and not status.opened:
        typer.echo(f"{job} is {status.state}: {status.message}", err=True)


def _code_of(client: Client, job: str) -> int:
    """Returns the exit code of `headrace run` for the same failure."""
    newest = next(iter(client.exceptions(job)), None)
    return FAILED if newest is None else exit_code_of(newest.domain, unreachable=newest.unreachable)


def print_end(status: JobStatus, *, as_json: bool, code: int = FAILED) -> None:
    """Prints how a job ended, and exits with `code` unless it finished."""
    if as_json:
        print_json({"job_id": status.job_id, "state": status.state, "failure": status.failure})
    if status.failure and status.state == "FAILED":
        typer.echo(f"error: {status.failure}", err=True)
    if status.state != "FINISHED":
        raise typer.Exit(code)
