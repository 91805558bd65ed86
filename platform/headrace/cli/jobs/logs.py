"""`headrace logs`: the logs of a job's processes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headrace.cli.arguments import Coordinator, Job, Json, print_json
from headrace.cli.errors import reporting_errors

PAUSE_S = 0.5
"""With --follow: between two requests."""


@reporting_errors()
def logs(
    job: Job,
    lines: Annotated[
        int, typer.Option("-n", "--lines", min=1, max=100_000, help="Number of lines, the last ones.")
    ] = 1000,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on with what is logged from now on, until the job ends.")
    ] = False,
    coordinator: Coordinator = None,
    as_json: Json = False,
) -> None:
    """Show the last lines that the processes of a job logged; of a cluster on YARN that has ended, those of all its
    containers. With --follow and --json there is one document a line."""
    from headrace.client.discovery import connect
    from headrace.core.errors import ExternalError, UserError

    with connect(coordinator) as client:
        try:
            found = client.log_lines(job, lines)
        except (ExternalError, UserError):
            if (ended_lines := _ended_lines(coordinator, lines)) is None:
                raise
            _show(ended_lines, as_json=as_json)
            return
        _show(found.lines, as_json=as_json)
        # asked before the lines are: all that the job logged is there once it has ended
        while follow:
            ended = _has_ended(client.status(job).state)
            found = client.log_lines(job, after=found.position)
            if found.lines:
                _show(found.lines, as_json=as_json)
            elif ended:
                return
            else:
                _pause()


def _ended_lines(coordinator: str | None, lines: int) -> tuple[str, ...] | None:
    from headrace.cli.jobs.ended_logs import ended_logs

    return ended_logs(coordinator, lines)


def _show(lines: tuple[str, ...], *, as_json: bool) -> None:
    if as_json:
        print_json({"lines": list(lines)})
        return
    for line in lines:
        typer.echo(line)


def _has_ended(state: str) -> bool:
    from headrace.client.models import FINAL_STATES

    return state in FINAL_STATES


def _pause() -> None:
    import time

    # a pipe's reader sees each line at once
    sys.stdout.flush()
    time.sleep(PAUSE_S)
