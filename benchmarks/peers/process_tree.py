"""Runs a command and measures the CPU time of all its descendants from outside.

The command runs under a sub-reaper, so that the time of ended and orphaned processes counts too. The broker and the
benchmark itself are outside of the tree.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from measuring.process_times import descendants, process_times

from peers.phase import Phase

SUB_REAPER = Path(__file__).with_name("sub_reaper.py")
END_S = 600.0


class FailedRunError(Exception):
    """A contender failed or did not end; the message has the end of its log."""


@dataclass(slots=True)
class ProcessTree:
    """A running command. stdin, stdout: pipes to the command, for commands that read orders."""

    process: subprocess.Popen[str]
    log: Path

    @property
    def stdin(self) -> IO[str]:
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def stdout(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    def cpu_s(self) -> float:
        """Returns user and system seconds of all processes so far, ended ones too; resolution: a clock tick."""
        times = process_times()
        root = self.process.pid
        alive = sum(times[pid].own_s + times[pid].reaped_s for pid in descendants(root, times))
        return times[root].reaped_s + alive

    def end(self) -> float:
        """Waits until the whole tree has ended well, and returns its CPU seconds. Raises FailedRunError."""
        self.stdin.close()
        deadline = time.monotonic() + END_S
        # the sub-reaper's own entry in /proc has the times until it is reaped
        while os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            if time.monotonic() > deadline:
                raise self.failed(f"did not end within {END_S:.0f} s")
            time.sleep(0.005)
        cpu_s = self.cpu_s()
        if (code := self.process.wait()) != 0:
            raise self.failed(f"ended with code {code}")
        return cpu_s

    def failed(self, what: str) -> FailedRunError:
        """Returns the error with the end of the log."""
        return FailedRunError(f"{what}; its log ends with:\n{self.log.read_text(errors='replace')[-3_000:]}")

    def kill(self) -> None:
        """Ends every process of the tree; returns when none is left, which is when the sub-reaper ends."""
        while self.process.poll() is None:
            # again, for those that were forked meanwhile
            for pid in descendants(self.process.pid, process_times()):
                with suppress(ProcessLookupError):  # it ended meanwhile
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)


@contextmanager
def started(command: Sequence[str], folder: Path, *, environment: Mapping[str, str]) -> Iterator[ProcessTree]:
    """Starts a command with its log in `folder`; ends the tree at the end of the context, also after an error."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, str(SUB_REAPER), *command],
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    tree = ProcessTree(process, log)
    try:
        yield tree
    finally:
        if process.returncode is None:
            tree.kill()
        tree.stdout.close()
        with suppress(BrokenPipeError):  # an order that the command did not live to read
            tree.stdin.close()


def whole_run(command: Sequence[str], folder: Path, *, rows: int, environment: Mapping[str, str]) -> Phase:
    """Runs a command to its end. Raises FailedRunError."""
    begun = time.perf_counter()
    with started(command, folder, environment=environment) as tree:
        # what it prints goes nowhere; a full pipe would stop it
        tree.stdout.read()
        cpu_s = tree.end()
    return Phase(rows=rows, cpu_s=cpu_s, wall_s=time.perf_counter() - begun)
