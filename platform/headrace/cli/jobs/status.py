"""`headrace status`: a job with its nodes, subtasks and last checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.arguments import Coordinator, Job, Json, plural, print_json, print_table
from headrace.cli.errors import reporting_errors
from headrace.cli.jobs.jobs import time_text

if TYPE_CHECKING:
    from headrace.client.models import ExceptionInfo, JobStatus, NodeStatus

HEAD = ("NODE", "KIND", "SUBTASKS", "IN", "OUT", "LATE", "BAD", "LAG", "WATERMARK", "BUSY", "BACKPRESSURE")
SUBTASKS_SHOWN = 32
"""More subtasks than these are only shown on demand."""


@reporting_errors()
def status(
    job: Job,
    subtasks: Annotated[bool, typer.Option("--subtasks", help="Print all subtasks, also if there are many.")] = False,
    exceptions: Annotated[
        bool, typer.Option("--exceptions", help="Also print the last failures, newest first.")
    ] = False,
    coordinator: Coordinator = None,
    as_json: Json = False,
) -> None:
    """Show a job: state, nodes and subtasks, rows, lag, watermark, backpressure, last checkpoint."""
    from headrace.client.discovery import connect

    with connect(coordinator) as client:
        found = client.status(job)
        failures = client.exceptions(found.job_id) if exceptions else ()
    if as_json:
        more = {"exceptions": [each.model_dump(mode="json") for each in failures]} if exceptions else {}
        print_json({**found.model_dump(mode="json"), **more})
        return
    for line in _lines(found):
        typer.echo(line)
    if found.nodes:
        every = subtasks or sum(len(node.subtasks) for node in found.nodes) <= SUBTASKS_SHOWN
        print_table(HEAD, [row for node in found.nodes for row in _rows(node, subtasks=every)], left=2)
    for failure in failures:
        typer.echo(_failure(failure))


def _lines(found: JobStatus) -> Iterator[str]:
    yield f"{found.job_id}  {found.name}  {typer.style(found.state, bold=True)}"
    yield f"  attempt {found.attempt}, parallelism {found.parallelism}, started {time_text(found.started_at)}" + (
        f", ended {time_text(found.ended_at)}" if found.ended_at else ""
    )
    if found.message:
        yield f"  {found.message}"
    if found.alarm:
        yield f"  {typer.style('alarm', bold=True)}: {found.alarm}"
    if found.checkpoint is None:
        yield "  no checkpoint yet"
    else:
        last = found.checkpoint
        yield f"  checkpoint {last.epoch} at {time_text(last.completed_at)}, {last.bytes:,} bytes, {last.path}"
    if found.savepoint:
        yield f"  savepoint {found.savepoint}"
    if found.failure:
        yield f"  {'failed' if found.state == 'FAILED' else 'last failure'}: {found.failure}"
    if found.restarts:
        yield f"  {plural(found.restarts, 'restart')}"


def _rows(node: NodeStatus, *, subtasks: bool) -> Iterator[tuple[str, ...]]:
    yield (
        node.node,
        node.kind,
        str(node.parallelism),
        f"{node.rows_in:,}",
        f"{node.rows_out:,}",
        f"{node.late:,}",
        f"{node.bad:,}",
        "-" if node.lag is None else f"{node.lag:,}",
        _watermark(node.watermark),
        f"{node.busy:.0%}",
        f"{node.backpressured:.0%}",
    )
    if not subtasks:
        return
    for each in node.subtasks:
        place = f"  {each.subtask}" + (f" on {each.worker}" if each.worker else "")
        ends = "ended" if each.ended else f"{each.rows_queued:,} queued" if each.rows_queued else ""
        share = (f"{each.busy:.0%}", f"{each.backpressured:.0%}")
        yield (place, ends, "", "", "", "", "", "", _watermark(each.watermark), *share)


def _failure(failure: ExceptionInfo) -> str:
    where = [
        f"{word} {value}"
        for word, value in (("node", failure.node), ("subtask", failure.subtask), ("worker", failure.worker))
        if value is not None
    ]
    place = ", ".join([f"attempt {failure.attempt}", *where, *([failure.place] if failure.place else [])])
    return f"{time_text(failure.at)}  {place}\n  {failure.message}" + (
        f"\n  {failure.remedy}" if failure.remedy else ""
    )


def _watermark(watermark: int | None) -> str:
    from headrace.core.signals import TIME_MIN
    from headrace.local.runs.progress import watermark_text

    return watermark_text(TIME_MIN if watermark is None else watermark)
