"""`headrace worker` in a process of its own, with quick times: what a test may freeze and kill."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.rpc.time_settings import ClusterTimes
from support.control.server import TOKEN

_PROGRAM = """
import json, sys
from pathlib import Path
from headrace.processes.template.client import own_starter
starter = own_starter(["headrace.worker.slot.main"])
from headrace.rpc.time_settings import ClusterTimes
from headrace.worker.supervision.supervisor import Supervisor, WorkerConfig
given = json.loads(sys.argv[2])
times, folder = ClusterTimes(**given.pop("times")), Path(given.pop("folder"))
Supervisor(WorkerConfig(**given, times=times, folder=folder, starter=starter)).run()
"""


@dataclass
class WorkerProcess:
    """A supervisor's process. Its slots are children of it."""

    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def children(self) -> set[int]:
        return {pid for pid in all_pids() if parent_of(pid) == self.pid and is_running(pid)}


@contextmanager
def worker_process(
    address: str, folder: Path, times: ClusterTimes, *, slots: int = 1, worker: str = "w1"
) -> Iterator[WorkerProcess]:
    """Starts it; at the end it and all of its slots are gone."""
    import json

    temporary = folder / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    given = {
        "worker": worker,
        "coordinator": address,
        "slots": slots,
        "host": "127.0.0.1",
        "folder": str(folder / worker),
        "token": TOKEN,
        "times": asdict(times),
    }
    environment = os.environ | {"HEADRACE_HOME": str(folder / "home"), "TMPDIR": str(temporary)}
    command = [sys.executable, "-c", _PROGRAM, "headrace-worker", json.dumps(given)]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        yield WorkerProcess(process, folder / worker)
    finally:
        process.kill()
        process.wait()


def all_pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def parent_of(pid: int) -> int:
    """0: there is no such process."""
    return int(field[1]) if (field := _stat(pid)) else 0


def is_running(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    return bool(field := _stat(pid)) and field[0] not in "ZX"


def _stat(pid: int) -> list[str]:
    """State, parent, .. of a process; empty: there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
