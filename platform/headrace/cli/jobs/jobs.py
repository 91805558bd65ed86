"""`headrace list`: the jobs of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from headrace.cli.arguments import Coordinator, Json, print_json, print_table
from headrace.cli.errors import reporting_errors

if TYPE_CHECKING:
    from datetime import datetime

    from headrace.client.models import JobStatus, JobSummary


@reporting_errors()
def jobs(coordinator: Coordinator = None, as_json: Json = False) -> None:
    """List the jobs of a cluster: those that run, and the last that ended."""
    from headrace.client.discovery import connect

    with connect(coordinator) as client:
        found = client.jobs()
    if as_json:
        print_json({"jobs": [job.model_dump(mode="json") for job in found]})
    elif not found:
        typer.echo("no jobs", err=True)
    else:
        rows = [(job.job_id, job.name, state_text(job), time_text(job.started_at)) for job in found]
        print_table(("JOB", "NAME", "STATE", "STARTED"), rows, left=4)


def state_text(job: JobSummary | JobStatus) -> str:
    """`FINISHED`, `FINISHED (stopped)`."""
    return f"{job.state} (stopped)" if job.ended_by == "stop" else job.state


def time_text(time: datetime | None) -> str:
    """`2026-01-31 09:30:00` in UTC, `-` if there is none."""
    from datetime import UTC

    return "-" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
