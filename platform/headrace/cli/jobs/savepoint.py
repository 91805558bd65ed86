"""`headrace savepoint`: keeps the state of a running job for later."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.arguments import Coordinator, Job, Json, print_json
from headrace.cli.errors import reporting_errors


@reporting_errors()
def savepoint(
    job: Job,
    directory: Annotated[
        str | None,
        typer.Argument(metavar="[DIR]", help="Folder or URL for the savepoint.", show_default=False),
    ] = None,
    coordinator: Coordinator = None,
    as_json: Json = False,
) -> None:
    """Take a savepoint of a running job, which goes on; prints its path."""
    from headrace.checkpoint.paths import absolute
    from headrace.client.discovery import connect

    with connect(coordinator) as client:
        done = client.wait_trigger(client.savepoint(job, None if directory is None else absolute(directory)))
    if as_json:
        print_json({"path": done.path, "job_id": done.job_id})
    else:
        typer.echo(done.path)
