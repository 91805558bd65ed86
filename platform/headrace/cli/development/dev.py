"""`headrace dev`: runs a pipeline anew whenever its file, or a Python file beside it, is saved.

    this process: watches the files ── starts, stops ──> dev-run: reads the file, runs it in threads, shows rows

A run has a process of its own, so that edited modules are imported anew and nothing of the run before remains.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.arguments import File, Set
from headrace.cli.errors import reporting_errors
from headrace.cli.signals import handled, leaving_at_once

LOOK_S = 0.3
"""Interval between two checks of the files."""
STOP_S = 10.0
"""Time for a run to end; then it is killed."""


@leaving_at_once("ended before anything ran")
@reporting_errors()
def dev(
    file: File,
    set_: Set = None,
    rows: Annotated[int, typer.Option(min=1, help="Most rows of a sink to show in a second.")] = 20,
    write: Annotated[
        bool, typer.Option("--write", help="Write to the sinks, too. Default: their rows are only shown.")
    ] = False,
) -> None:
    """Run a pipeline, show the rows of its sinks, and start anew whenever its file is saved; until Ctrl-C.

    A Python file beside or below FILE counts, too. State is in memory: each start reads from `start:`, keeps nothing,
    and commits no offsets. A save ends the run before it; a mistake is shown with its place, and the next save starts
    again.
    """
    from headrace.core.errors import UserError
    from headrace.core.files.named_file import named_file
    from headrace.processes.end_request import EndRequest

    path = named_file(file)
    if not path.is_file():
        raise UserError(f"there is no file {path}", remedy="check the path; `headrace init` makes a pipeline")
    options = [*(f"--set={each}" for each in set_ or ()), f"--rows={rows}", *(["--write"] if write else [])]
    ended = EndRequest()
    with handled(lambda _number: ended.set()):
        seen = look(path)
        run = _Run([file, *options])
        try:
            while not ended.wait(LOOK_S):
                now = look(path)
                if files := changed(seen, now):
                    # an editor may write in several steps: start once two checks have the same result
                    while not ended.wait(LOOK_S) and (after := look(path)) != now:
                        now = after
                    seen = now
                    run.stop()
                    typer.echo(f"--- {files[0].name} was saved: starts anew", err=True)
                    run = _Run([file, *options])
                elif run.has_failed():
                    typer.echo("waits for the next save; Ctrl-C ends it", err=True)
        finally:
            run.stop()


class _Run:
    """The process of one run. In a session of its own: Ctrl-C reaches this process only, which ends the run."""

    def __init__(self, arguments: list[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "headrace", "dev-run", *arguments],
            stdin=subprocess.PIPE,
            # a module that is saved twice in one second would be taken from the cache of its first version
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
            start_new_session=True,
        )
        self._is_reported = False

    def has_failed(self) -> bool:
        """Whether it has ended; true once."""
        if self._is_reported or self._process.poll() is None:
            return False
        self._is_reported = True
        return True

    def stop(self) -> None:
        """Ends it, and waits for its end."""
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


# ---- the files that are watched --------------------------------------------------------------------------------------


FILES_MAX = 2_000
"""Most Python files that are watched."""
_LEFT_OUT = {"__pycache__", "node_modules", "site-packages"}

Seen = Mapping[Path, tuple[int, int, int]]
"""File -> (modification time in ns, size, inode)."""


def look(file: Path) -> Seen:
    """Returns what the files are now. A file that is missing, as while an editor replaces it, is left out."""
    seen: dict[Path, tuple[int, int, int]] = {}
    for path in (file, *_modules(file.parent)):
        try:
            stat = path.stat()
        except OSError:
            continue
        seen[path] = stat.st_mtime_ns, stat.st_size, stat.st_ino
    return seen


def changed(before: Seen, after: Seen) -> tuple[Path, ...]:
    """Returns the files that are new, gone or different."""
    return tuple(sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path)))


def _modules(folder: Path) -> Iterator[Path]:
    count = 0
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            # an environment of Python's has thousands of modules that nobody edits
            if name not in _LEFT_OUT and not name.startswith(".") and not (Path(place, name) / "pyvenv.cfg").exists()
        )
        for name in sorted(files):
            if name.endswith(".py"):
                count += 1
                if count > FILES_MAX:
                    return
                yield Path(place, name)
