"""The progress of `headrace run` on stderr."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from headrace.local.engine.job import Progress

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
