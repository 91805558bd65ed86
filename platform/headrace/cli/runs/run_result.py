"""The output of `headrace run` on stderr: its progress, and its end: a summary, or the failure."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from headrace.cli.arguments import print_json
from headrace.cli.errors import FAILED, exit_code

if TYPE_CHECKING:
    from headrace.core.source_state import AppliedFloor
    from headrace.local.engine.job import Progress


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a run, in threads or in slots. `ran`: it read rows; resumable: it may be resumed; given_up: it took
    no last checkpoint."""

    state: str
    progress: Progress
    floors: Sequence[AppliedFloor]
    failure: Exception | None = None
    ran: bool = True
    savepoint: str | None = None
    resumable: bool = False
    given_up: bool = False

    @property
    def stopped(self) -> bool:
        """Whether the user ended it before all input was read. (`state` is CANCELED then, as in earlier versions.)"""
        return self.state == "CANCELED"


def report_failure(ran: Ran, seconds: float, file: str, *, as_json: bool) -> None:
    """Prints the summary of a failed job, and exits with 1 if it failed while running."""
    from headrace.core.concealing import conceal_error, concealed
    from headrace.core.errors import DataError, ExternalError, HeadraceError, UnreachableError, UserError

    error = ran.failure
    assert error is not None, "a failed run has a failure"
    if isinstance(error, HeadraceError):
        conceal_error(error)
    if as_json:
        text = str(error) if isinstance(error, HeadraceError) else concealed(f"{type(error).__name__}: {error}")
        print_json({**_summary(ran, seconds), "error": text})
    if ran.resumable:
        typer.echo(f"its last checkpoint is kept; go on with: headrace run {file} --resume", err=True)
    # a refusal before the first row (no such topic) is wrong use; later errors are the job's failure
    failed_running = isinstance(error, DataError) or ran.ran
    if isinstance(error, UserError | ExternalError):
        typer.echo(f"error: {error}", err=True)
        code = FAILED if failed_running and not isinstance(error, UnreachableError) else exit_code(error)
        raise typer.Exit(code) from error


def _summary(ran: Ran, seconds: float) -> dict[str, object]:
    rate = _rate(ran.progress)
    return {
        "state": ran.state,
        "rows_in": ran.progress.rows_in,
        "rows_out": ran.progress.rows_out,
        "late": ran.progress.late,
        "bad": ran.progress.bad,
        "seconds": round(seconds, 3),
        "savepoint": ran.savepoint,
        "running_seconds": round(ran.progress.running_ms / 1000, 3),
        "rows_in_per_s": None if rate is None else round(rate, 1),
        "ended_by": "failure" if ran.state == "FAILED" else "stop" if ran.stopped else "input",
    }


def _rate(progress: Progress) -> float | None:
    """Rows read a second by the last attempt, from when its subtasks ran; None: they did not run, or not for 1 ms."""
    return progress.attempt_in * 1000 / progress.running_ms if progress.running_ms > 0 else None


def print_summary(ran: Ran, seconds: float, *, as_json: bool) -> None:
    """Prints the summary of a job that has not failed: a line on stderr, for stdout may have rows of a `print` sink;
    or one document on stdout."""
    from headrace.core.text.plural import count_text

    if as_json:
        print_json(_summary(ran, seconds))
        return
    progress = ran.progress
    rate = _rate(progress)
    speed = "" if rate is None else f", {count_text(rate)} rows/s in the {progress.running_ms / 1000:.1f} s that it ran"
    rows = "row" if progress.rows_in == 1 else "rows"
    typer.echo(
        f"{'STOPPED' if ran.stopped else ran.state}: {progress.rows_in:,} {rows} in, {progress.rows_out:,} out, "
        f"{progress.late:,} late, {progress.bad:,} bad, {seconds:.1f} s{speed}",
        err=True,
    )
    if ran.savepoint is not None:
        typer.echo(f"savepoint {ran.savepoint}", err=True)


def require_savepoint(ran: Ran) -> None:
    """Exits with 1 if a run that was to end with a savepoint has none: it was stopped before its subtasks ran."""
    if ran.savepoint is not None:
        return
    why = "it took no last checkpoint in time" if ran.given_up else "the run was stopped before it began to read"
    remedy = (
        "go on with --resume, and stop it once it runs"
        if ran.given_up
        else "run it again, and stop it once rows are shown; what it started from is unchanged"
    )
    typer.echo(f"error: there is no savepoint: {why}\n  {remedy}", err=True)
    raise typer.Exit(FAILED)


TTY_SECONDS, PLAIN_SECONDS = 1.0, 5.0


class Meter:
    """Shows the progress line: in place on a terminal, elsewhere as a line now and then."""

    def __init__(self, started_s: float) -> None:
        from headrace.local.runs.progress import ProgressLine

        self._line = ProgressLine()
        self._last = ""
        self._tty = sys.stderr.isatty()
        self._every_s = TTY_SECONDS if self._tty else PLAIN_SECONDS
        self._due_s = started_s + self._every_s
        self._shown = False

    def show(self, progress: Progress) -> None:
        """Shows the line if it is due."""
        now_s = time.monotonic()
        if now_s < self._due_s:
            return
        self._due_s = now_s + self._every_s
        text = self._line.text(progress)
        if text == self._last and not self._tty:
            # a log file of an idle job must not grow
            return
        self._shown, self._last = True, text
        typer.echo(f"\r\x1b[2K{text}" if self._tty else text, nl=not self._tty, err=True)

    def tell(self, text: str) -> None:
        """Prints a line of its own, in place of the progress line."""
        typer.echo(f"\r\x1b[2K{text}" if self._tty else text, err=True)

    def end(self) -> None:
        """Ends the line."""
        if self._tty and self._shown:
            typer.echo("", err=True)
