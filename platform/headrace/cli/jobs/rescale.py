"""`headrace rescale`: another parallelism for a running job."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.arguments import Coordinator, Job, Json, print_json
from headrace.cli.errors import reporting_errors


@reporting_errors()
def rescale(
    job: Job,
    parallelism: Annotated[int, typer.Option(min=1, help="Subtasks of a node that sets none itself.")],
    coordinator: Coordinator = None,
    as_json: Json = False,
) -> None:
    """Continue a job with another parallelism: it takes a checkpoint and starts again from there."""
    from headrace.client.discovery import connect

    with connect(coordinator) as client:
        done = client.wait_trigger(client.rescale(job, parallelism))
        status = client.status(done.job_id)
    if as_json:
        print_json({"job_id": done.job_id, "state": status.state, "parallelism": status.parallelism})
    else:
        typer.echo(f"{done.job_id}: {status.state} with parallelism {status.parallelism}")
