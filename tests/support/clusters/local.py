"""A local cluster of processes in a home of a test's own, worked by the command; what a home left alive."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.client.discovery import recorded_token
from headrace.client.http import Client
from headrace.client.models import JobStatus
from headrace.core.settings import Home
from support.processes.running import Finished, headrace, wait_until


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

    def client(self) -> Client:
        """Of its coordinator: a request is cheaper than a command."""
        published = json.loads((self.home / "cluster" / "coordinator.json").read_text())
        return Client(published["url"], recorded_token(Home(self.home)))

    def wait_status(self, job: str, is_so: Callable[[JobStatus], bool], what: str) -> JobStatus:
        """The job's status, once it is so."""
        seen: list[JobStatus] = []
        with self.client() as client:

            def look() -> bool:
                seen[:] = [client.status(job)]
                return is_so(seen[0])

            wait_until(look, f"job {job} {what}")
        return seen[0]

    def wait_state(self, job: str, state: str) -> JobStatus:
        """The job's status, once it is in this state."""
        return self.wait_status(job, lambda status: status.state == state, f"to be {state}")


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
            with suppress(ProcessLookupError):
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
