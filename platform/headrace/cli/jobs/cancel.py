"""`headrace cancel`: ends a job at once."""

from __future__ import annotations

import typer

from headrace.cli.arguments import Coordinator, Job, Json, print_json
from headrace.cli.errors import reporting_errors


@reporting_errors()
def cancel(job: Job, coordinator: Coordinator = None, as_json: Json = False) -> None:
    """End a job at once. Its checkpoints stay, to start another job from."""
    from headrace.client.discovery import connect

    with connect(coordinator) as client:
        done = client.wait_trigger(client.cancel(job))
        status = client.status(done.job_id)
    if as_json:
        print_json({"job_id": done.job_id, "state": status.state})
        return
    typer.echo(f"{done.job_id}: {status.state}")
    if status.checkpoint is not None:
        typer.echo(f"its last checkpoint stays: {status.checkpoint.path}", err=True)
