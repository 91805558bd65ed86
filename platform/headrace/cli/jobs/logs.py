"""`headrace logs`: the logs of a job's processes."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.arguments import Coordinator, Job, Json, print_json
from headrace.cli.errors import reporting_errors


@reporting_errors()
def logs(
    job: Job,
    lines: Annotated[
        int, typer.Option("-n", "--lines", min=1, max=100_000, help="Number of lines, the last ones.")
    ] = 1000,
    coordinator: Coordinator = None,
    as_json: Json = False,
) -> None:
    """Show the last lines that the processes of a job logged; of a cluster on YARN that has ended, those of all its
    containers."""
    from headrace.client.discovery import connect
    from headrace.core.errors import ExternalError, UserError

    try:
        with connect(coordinator) as client:
            found = client.logs(job, lines)
    except (ExternalError, UserError):
        from headrace.cli.jobs.ended_logs import ended_logs

        ended = ended_logs(coordinator, lines)
        if ended is None:
            raise
        found = ended
    if as_json:
        print_json({"lines": list(found)})
        return
    for line in found:
        typer.echo(line)
