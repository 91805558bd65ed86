"""`headrace stop`: ends a job at a cut, with a savepoint or checkpoint to start from again."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.arguments import Coordinator, Job, Json, print_json
from headrace.cli.errors import reporting_errors


@reporting_errors()
def stop(
    job: Job,
    savepoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Folder or URL for a savepoint. Default: keep a last checkpoint.",
            show_default=False,
        ),
    ] = None,
    drain: Annotated[bool, typer.Option("--drain", help="Set time to its end first: every window fires.")] = False,
    coordinator: Coordinator = None,
    as_json: Json = False,
) -> None:
    """Stop a job at a cut; prints the path of the savepoint or checkpoint to go on from."""
    from headrace.checkpoint.paths import absolute
    from headrace.client.discovery import connect

    directory = None if savepoint is None else absolute(savepoint)
    with connect(coordinator) as client:
        done = client.wait_trigger(client.stop(job, directory, drain=drain))
    if as_json:
        print_json({"path": done.path, "job_id": done.job_id})
    elif done.path is not None:
        typer.echo(done.path)
