"""`headrace checkpoints`: the checkpoints of a job."""

from __future__ import annotations

import typer

from headrace.cli.arguments import Coordinator, Job, Json, print_json, print_table
from headrace.cli.errors import reporting_errors
from headrace.cli.jobs.jobs import time_text


@reporting_errors()
def checkpoints(job: Job, coordinator: Coordinator = None, as_json: Json = False) -> None:
    """List the checkpoints and savepoints of a job, newest first: also those that run, and those that failed."""
    from headrace.cli.jobs.status_text import slowest_text
    from headrace.client.discovery import connect
    from headrace.core.text.span_text import span_text

    with connect(coordinator) as client:
        found = client.checkpoints(job)
    if as_json:
        print_json({"checkpoints": [each.model_dump(mode="json") for each in found]})
    elif not found:
        typer.echo("no checkpoints yet", err=True)
    else:
        rows = [
            (
                str(each.epoch),
                each.kind,
                each.status,
                time_text(each.completed_at or each.started_at),
                each.failure or each.path or "-",
                slowest_text(each),
                "-" if each.aligned_ms is None else span_text(each.aligned_ms),
                "-" if each.duration_ms is None else f"{each.duration_ms:,} ms",
                "-" if each.bytes is None else f"{each.bytes:,}",
            )
            for each in found
        ]
        print_table(("EPOCH", "KIND", "STATUS", "TIME", "PATH", "SLOWEST", "ALIGNED", "TOOK", "BYTES"), rows, left=5)
