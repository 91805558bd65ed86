"""`headrace dev-run`: one run of `headrace dev`, in a process of its own that ends with its parent."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.arguments import File, Set
from headrace.cli.errors import reporting_errors
from headrace.cli.signals import handled
from headrace.processes.end_request import end_with_parent

if TYPE_CHECKING:
    from headrace.local.engine.job import Progress


@reporting_errors()
def dev_run(
    file: File,
    set_: Set = None,
    rows: Annotated[int, typer.Option(min=1)] = 20,
    write: Annotated[bool, typer.Option("--write")] = False,
) -> None:
    """Run a pipeline and show its rows, until its sources end, SIGTERM, or the end of standard input."""
    end_with_parent()
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from headrace.local.dev.shown_run import ShownRun
    from headrace.local.pipeline_file import load_file
    from headrace.processes.end_request import EndRequest

    run = ShownRun(load_file(file, set_ or []), rows_per_s=rows, write=write)
    running = False
    ended = EndRequest()

    def supervise(progress: Progress) -> None:
        nonlocal running
        # called here, not in the handler: a handler may interrupt the very lock that `stop` acquires
        if ended.is_set():
            run.stop()
        if progress.running_ms and not running:
            running = True
            typer.echo("running; saving a file starts it anew, Ctrl-C ends it", err=True)

    with handled(lambda _number: ended.set()):
        state, progress = run.run(supervise)
    if state == "FINISHED":
        typer.echo(
            f"the sources have ended: {progress.rows_in:,} rows in, {progress.rows_out:,} out, "
            f"{progress.late:,} late, {progress.bad:,} bad",
            err=True,
        )
