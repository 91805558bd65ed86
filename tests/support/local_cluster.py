"""A local cluster of processes in a home of a test's own, worked by the command; what a home left alive."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.running import Finished, headrace, wait_until


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """Commands in `folder`, whose home is `folder/home`."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def run(self, *arguments: str, code: int = 0) -> Finished:
        done = headrace(arguments, self.folder)
        assert done.code == code, f"{arguments} ended with {done.code}\n{done.out}\n{done.err}"
        return done

    def json(self, *arguments: str, code: int = 0) -> Any:
        return self.run(*arguments, "--json", code=code).json

    def wait_state(self, job: str, states: Sequence[str]) -> Any:
        """The job's status, once it is in one of these states."""
        seen: list[Any] = []

        def reached() -> bool:
            seen[:] = [self.json("status", job)]
            return seen[0]["state"] in states

        wait_until(reached, f"job {job} to be {' or '.join(states)}")
        return seen[0]


@contextmanager
def home_of_processes(folder: Path) -> Iterator[LocalCluster]:
    """At the end the cluster is stopped, and nothing of the home runs any more."""
    cluster = LocalCluster(folder)
    try:
        yield cluster
        headrace(["cluster", "stop"], folder)
        assert processes_of(cluster.home) == []
    finally:
        for pid in processes_of(cluster.home):
            os.kill(pid, signal.SIGKILL)


def processes_of(home: Path) -> list[int]:
    """Processes whose environment names this home, or one inside of it."""
    mark = f"HEADRACE_HOME={home}"
    return [
        pid
        for pid in (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
        if pid != os.getpid() and any(each == mark or each.startswith(f"{mark}/") for each in _environment(pid))
    ]


def _environment(pid: int) -> list[str]:
    try:
        return os.fsdecode(Path(f"/proc/{pid}/environ").read_bytes()).split("\0")
    except OSError:
        return []
