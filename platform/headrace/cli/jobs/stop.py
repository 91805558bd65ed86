"""`headrace stop`: ends a job at a cut, with a savepoint or checkpoint to start from again."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.arguments import Coordinator, Job, Json, duration_ms, print_json
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
    within: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="The job ends within this time: at its last complete checkpoint, if it takes no other one.",
        ),
    ] = "60s",
    coordinator: Coordinator = None,
    as_json: Json = False,
) -> None:
    """Stop a job at a cut; prints the path of the savepoint or checkpoint to go on from."""
    from headrace.checkpoint.paths import absolute
    from headrace.client.discovery import connect

    directory = None if savepoint is None else absolute(savepoint)
    within_ms = _bounded(duration_ms("--within", within))
    with connect(coordinator) as client:
        done = client.wait_trigger(client.stop(job, directory, drain=drain, within_ms=within_ms))
    if done.progress is not None:
        typer.echo(f"{done.job_id} {done.progress}", err=True)
        if done.path is not None:
            typer.echo(f"go on with: headrace submit FILE --from-savepoint {done.path}", err=True)
    if as_json:
        print_json({"path": done.path, "job_id": done.job_id})
    elif done.path is not None:
        typer.echo(done.path)


def _bounded(within_ms: int) -> int:
    from headrace.client.requests import STOP_WITHIN_LEAST_MS, STOP_WITHIN_MOST_MS
    from headrace.core.config import duration_text
    from headrace.core.errors import UserError

    if STOP_WITHIN_LEAST_MS <= within_ms <= STOP_WITHIN_MOST_MS:
        return within_ms
    least, most = duration_text(STOP_WITHIN_LEAST_MS), duration_text(STOP_WITHIN_MOST_MS)
    raise UserError(f"--within {duration_text(within_ms)} is no bound of a stop", remedy=f"give {least} to {most}")
