"""`headrace audit`: reads a job's output back and proves it against the job's own account."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from headrace.cli.arguments import Coordinator, Job, Json, print_json
from headrace.cli.errors import FAILED, WRONG_USE, reporting_errors
from headrace.core.text.plural import plural

if TYPE_CHECKING:
    from headrace.client.models import AuditReport, SinkAudit, Trigger


@reporting_errors()
def audit(job: Job, coordinator: Coordinator = None, as_json: Json = False) -> None:
    """Read the output of a job's exactly-once sinks back, as its readers see it, and compare it with its checkpoints.

    Every checkpoint holds how many rows the job has written by then, and their hash. A job that runs is audited as it
    goes on. Exit code 0: all proven; 1: output differs; 2: it cannot be proven (another writer, compaction, expired
    records, open transactions).
    """
    from headrace.client.discovery import connect

    with connect(coordinator) as client:
        done = client.wait_trigger(client.audit(job), on_look=_Progress())
    report = done.audit
    assert report is not None, "an audit ends with a report"
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        for each in report.sinks:
            for line in _lines(each):
                typer.echo(line)
    if code := _exit_code(report):
        raise typer.Exit(code)


class _Progress:
    """Prints progress when it changes, on a terminal."""

    def __init__(self) -> None:
        self._shown: str | None = None

    def __call__(self, trigger: Trigger) -> None:
        if trigger.progress and trigger.progress != self._shown and sys.stderr.isatty():
            self._shown = trigger.progress
            typer.echo(trigger.progress, err=True)


def _lines(each: SinkAudit) -> Iterator[str]:
    verdict = typer.style(each.verdict, bold=True)
    if each.verdict == "proven":
        yield f"{each.sink}: {verdict}: {plural(each.rows, 'row')}, as checkpoint {each.epoch} says"
        return
    yield f"{each.sink}: {verdict}: {plural(each.rows, 'row')} read, checkpoint {each.epoch} says {each.expected_rows}"
    for reason in each.reasons:
        yield f"  {reason}"


def _exit_code(report: AuditReport) -> int:
    verdicts = {each.verdict for each in report.sinks}
    if "differs" in verdicts:
        return FAILED
    return WRONG_USE if "unprovable" in verdicts else 0
