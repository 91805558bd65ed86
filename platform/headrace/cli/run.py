"""`headrace run`: a whole job on this host, in the foreground."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.arguments import File, Json, Set, plural, print_json
from headrace.cli.errors import FAILED, exit_code, reporting_errors

if TYPE_CHECKING:
    from headrace.core.source_state import AppliedFloor
    from headrace.local.job import JobState, LocalJob, Progress

TTY_SECONDS, PLAIN_SECONDS = 1.0, 5.0


@reporting_errors()
def run(
    file: File,
    parallelism: Annotated[int | None, typer.Option(min=1, help="Subtasks of a node that sets none itself.")] = None,
    set_: Set = None,
    floors: Annotated[Path | None, typer.Option(help="Floors of an earlier run, to get the same rows again.")] = None,
    record_floors: Annotated[Path | None, typer.Option(help="Write the floors of this run to this file.")] = None,
    threads: Annotated[bool, typer.Option("--threads", help="All subtasks in this process, as threads.")] = False,
    as_json: Json = False,
) -> None:
    """Run a pipeline until its sources end or Ctrl-C; progress on stderr, a summary at the end."""
    # subtasks are the parallelism: a pool of polars threads under each of them would only get in their way
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from headrace.local.compile import compile_loaded, load_file
    from headrace.local.job import JobOptions, LocalJob

    del threads  # this version runs no other way
    compiled = compile_loaded(load_file(file, set_ or [], parallelism))
    given = () if floors is None else _read_floors(floors)
    # names what the run makes (files of a sink), so that two runs never write to the same name
    job_name = f"{compiled.pipeline.name}-{uuid.uuid4().hex[:8]}"
    job = LocalJob(compiled.physical, JobOptions(job=job_name, floors=given))
    started_s = time.monotonic()
    try:
        state = _run_to_the_end(job, started_s)
    except Exception as error:
        _report_failure(job, error, time.monotonic() - started_s, as_json=as_json)
        raise
    _finish_floors(job, record_floors)
    _print_summary(state, job.progress(), time.monotonic() - started_s, as_json=as_json)


def _run_to_the_end(job: LocalJob, started_s: float) -> JobState:
    """Runs with a progress line; the first Ctrl-C (or SIGTERM) ends the job cleanly, the second at once."""
    meter = _Meter(started_s)
    with _asking_to_stop() as asked:

        def supervise(progress: Progress) -> None:
            # asked from here, not from the handler: a handler may interrupt the very lock that `stop` takes
            if asked:
                job.stop()
            meter.show(progress)

        try:
            return job.run(supervise)
        finally:
            meter.end()


@contextmanager
def _asking_to_stop() -> Iterator[list[int]]:
    """Gives a list that is filled by the first Ctrl-C or SIGTERM; the second Ctrl-C leaves the process at once."""
    asked: list[int] = []

    def ask(number: int, _frame: object) -> None:
        if asked and number == signal.SIGINT:
            os._exit(128 + number)
        asked.append(number)
        os.write(2, b"\nstopping; Ctrl-C again leaves at once\n")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Meter:
    """Shows the progress line: in place on a terminal, now and then as a line of its own elsewhere."""

    def __init__(self, started_s: float) -> None:
        from headrace.local.progress import ProgressLine

        self._line = ProgressLine(started_s)
        self._tty = sys.stderr.isatty()
        self._every_s = TTY_SECONDS if self._tty else PLAIN_SECONDS
        self._due_s = started_s + self._every_s
        self._shown = False

    def show(self, progress: Progress) -> None:
        """Shows it when it is time."""
        now_s = time.monotonic()
        if now_s < self._due_s:
            return
        self._due_s = now_s + self._every_s
        text = self._line.text(progress, now_s)
        self._shown = True
        typer.echo(f"\r\x1b[2K{text}" if self._tty else text, nl=not self._tty, err=True)

    def end(self) -> None:
        """Leaves the line behind."""
        if self._tty and self._shown:
            typer.echo("", err=True)


def _read_floors(path: Path) -> tuple[AppliedFloor, ...]:
    from headrace.core.errors import UserError
    from headrace.core.source_state import AppliedFloor

    try:
        return tuple(AppliedFloor(**item) for item in json.loads(path.read_text()))
    except OSError as error:
        raise UserError(f"--floors {path} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        remedy = "give a file that `headrace run --record-floors` wrote"
        raise UserError(f"--floors {path}: this is no list of floors", remedy=remedy) from error


def _finish_floors(job: LocalJob, record: Path | None) -> None:
    from dataclasses import asdict

    from headrace.core.errors import UserError

    applied = job.applied_floors()
    if record is not None:
        try:
            record.write_text(json.dumps([asdict(floor) for floor in applied], indent=1) + "\n")
        except OSError as error:
            raise UserError(f"--record-floors {record} cannot be written: {error.strerror}") from error
    elif applied:
        typer.echo(
            f"{plural(len(applied), 'floor')} took effect where partitions were idle or appeared; "
            "--record-floors PATH keeps them, and --floors PATH gives the same rows again",
            err=True,
        )


def _report_failure(job: LocalJob, error: Exception, seconds: float, *, as_json: bool) -> None:
    """The summary of a failed job, and exit code 1 where it failed while it ran."""
    from headrace.core.errors import DataError, ExternalError, HeadraceError, Unreachable, UserError
    from headrace.local.job import JobState

    progress = job.progress()
    if as_json:
        text = str(error) if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"
        print_json({**_summary(JobState.FAILED, progress, seconds), "error": text})
    # what a job is refused before its first row (no such topic) is wrong use; what comes later is its failure
    ran = isinstance(error, DataError) or progress.rows_in > 0
    if isinstance(error, UserError | ExternalError):
        typer.echo(f"error: {error}", err=True)
        code = FAILED if ran and not isinstance(error, Unreachable) else exit_code(error)
        raise typer.Exit(code) from error


def _summary(state: JobState, progress: Progress, seconds: float) -> dict[str, object]:
    return {
        "state": state.value,
        "rows_in": progress.rows_in,
        "rows_out": progress.rows_out,
        "late": progress.late,
        "bad": progress.bad,
        "seconds": round(seconds, 3),
        "savepoint": None,
    }


def _print_summary(state: JobState, progress: Progress, seconds: float, *, as_json: bool) -> None:
    from headrace.local.progress import count_text

    if as_json:
        print_json(_summary(state, progress, seconds))
        return
    rate = count_text(progress.rows_in / max(seconds, 1e-9))
    typer.echo(
        f"{state.value}: {progress.rows_in:,} rows in, {progress.rows_out:,} out, {progress.late:,} late, "
        f"{progress.bad:,} bad, {seconds:.1f} s, {rate} rows/s"
    )
