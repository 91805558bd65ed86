"""`headrace status`: a job with its nodes, subtasks, partitions and checkpoints."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.arguments import Coordinator, Job, Json, duration_ms, print_json
from headrace.cli.errors import reporting_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.client.http import Client
    from headrace.client.models import ExceptionInfo, JobStatus

CLEAR = "\x1b[H\x1b[2J"
"""Moves to the corner of a terminal, and clears it."""


@reporting_errors()
def status(
    job: Job,
    subtasks: Annotated[bool, typer.Option("--subtasks", help="Print all subtasks, also if there are many.")] = False,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="Also print the partitions of each source: position, lag, watermark.")
    ] = False,
    wide: Annotated[bool, typer.Option("--wide", help="Also print bytes in and out, and the size of state.")] = False,
    exceptions: Annotated[
        bool, typer.Option("--exceptions", help="Also print the last failures, newest first.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Print it again and again, until the job ends.")] = False,
    every: Annotated[str, typer.Option(metavar="DURATION", help="With --watch: the time between two looks.")] = "2s",
    coordinator: Coordinator = None,
    as_json: Json = False,
) -> None:
    """Show a job: state, rates, nodes and subtasks, rows, lag, watermark, backpressure, checkpoints, transactions.

    With --watch and --json there is one document a line.
    """
    from headrace.cli.jobs.status_text import Shown, print_status
    from headrace.client.discovery import connect

    pause_ms = duration_ms("--every", every)
    shown = Shown(subtasks=subtasks, partitions=partitions, wide=wide)

    def show(found: JobStatus, failures: tuple[ExceptionInfo, ...]) -> None:
        if as_json:
            more = {"exceptions": [each.model_dump(mode="json") for each in failures]} if exceptions else {}
            print_json({**found.model_dump(mode="json"), **more})
            return
        if watch and sys.stdout.isatty():
            typer.echo(CLEAR, nl=False)
        print_status(found, failures, shown)

    with connect(coordinator) as client:
        state = _look(client, job, show, exceptions=exceptions)
        while watch and not _is_final(state):
            _pause(pause_ms)
            state = _look(client, job, show, exceptions=exceptions)


def _look(
    client: Client, job: str, show: Callable[[JobStatus, tuple[ExceptionInfo, ...]], None], *, exceptions: bool
) -> str:
    found = client.status(job)
    show(found, client.exceptions(found.job_id) if exceptions else ())
    return found.state


def _is_final(state: str) -> bool:
    from headrace.client.models import FINAL_STATES

    return state in FINAL_STATES


def _pause(pause_ms: int) -> None:
    import time

    # a pipe's reader sees each look at once
    sys.stdout.flush()
    time.sleep(pause_ms / 1000)
