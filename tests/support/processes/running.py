"""`headrace` as a user runs it: a process of its own, what it prints, and waiting until something is so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol

from support.patience import RUN_TIMES, WAIT_SECONDS
from support.processes.forked.command import Command, can_be_forked

__all__ = [
    "RUN_TIMES",
    "WAIT_SECONDS",
    "Finished",
    "Running",
    "finish",
    "headrace",
    "start",
    "start_with",
    "wait_until",
]

PAUSE_SECONDS_MAX = 0.1


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Running(Protocol):
    """A command that was started: `subprocess.Popen`, or one that was forked."""

    @property
    def pid(self) -> int: ...

    @property
    def stdout(self) -> IO[str] | None: ...

    @property
    def stderr(self) -> IO[str] | None: ...

    @property
    def returncode(self) -> int | Any: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def communicate(self, *, timeout: float | None = None) -> tuple[str, str]: ...

    def send_signal(self, sig: int, /) -> None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...

    def __enter__(self) -> Any: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


def start(arguments: Sequence[str], folder: Path) -> Running:
    """Starts `headrace <arguments>` in `folder`, with a home of its own there; what runs slots with patience."""
    environment = os.environ | {"HEADRACE_HOME": str(folder / "home"), "COLUMNS": "200"}
    if arguments[0] in {"run", "archive"}:
        environment |= RUN_TIMES
    return start_with(environment, arguments, folder)


def start_with(environment: Mapping[str, str], arguments: Sequence[str], folder: Path) -> Running:
    """Starts `headrace <arguments>` in `folder` with this environment: forked, where it imports from where tests do."""
    if can_be_forked(environment):
        return Command(arguments, folder, environment)
    return subprocess.Popen(
        [sys.executable, "-m", "headrace", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: Running, seconds: float = WAIT_SECONDS) -> Finished:
    """Waits for its end."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"headrace did not end:\n{out}\n{err}") from None
    assert process.returncode is not None, "it has ended"
    return Finished(process.returncode, out, err)


def headrace(arguments: Sequence[str], folder: Path) -> Finished:
    """Runs `headrace <arguments>` to its end."""
    return finish(start(arguments, folder))


def wait_until(is_so: Callable[[], bool], what: str, seconds: float = WAIT_SECONDS) -> None:
    """Asks again and again until it is so; fails with `what` after `seconds`.

    Less and less often: asking takes processor time from those that are waited for.
    """
    deadline = time.monotonic() + seconds
    pause = 0.01
    while not is_so():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s: {what}"
        time.sleep(pause)
        pause = min(1.2 * pause, PAUSE_SECONDS_MAX)
