"""A session cluster as a user has it: processes of a home, to be killed, frozen and looked at; nothing of it stays.

`Cluster` starts it through the command line; processes are found by their role in the command line
and the home in their environment, which is what an operator would do.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from headrace.client.discovery import coordinator_file, recorded_token
from headrace.client.http import Client
from headrace.client.models import JobStatus
from headrace.core.errors import HeadraceError
from headrace.core.settings import Home
from support.clusters.remains import wait_nothing_remains
from support.clusters.worker_process import all_pids, is_running, parent_of
from support.patience import CLUSTER_TIMES, RUN_TIMES
from support.processes.running import Finished, Running, finish, start_with, wait_until

COORDINATOR, WORKER, SLOT = "headrace-coordinator", "headrace-worker", "headrace-slot"
CONNECTOR_HOST = "headrace-connector-host"


class Cluster:
    """The cluster of the home `<folder>/home`. `prefix`: put before every command line, such as a namespace's.

    python_path   folders with packages that its processes find beside headrace
    times         settings for its processes, one of those in `support.patience`
    """

    def __init__(
        self,
        folder: Path,
        *,
        prefix: Sequence[str] = (),
        python_path: Sequence[Path] = (),
        times: Mapping[str, str] = CLUSTER_TIMES,
    ) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.temporary = folder / "t"
        self.temporary.mkdir(parents=True)
        self._prefix = list(prefix)
        self._python_path = python_path
        self._times = times
        self._client: Client | None = None

    # ---- commands ------------------------------------------------------------------------------------------------

    def headrace(self, *arguments: str) -> Finished:
        """Runs `headrace ARGUMENTS` in the folder, to its end."""
        return finish(self.begin(*arguments))

    def begin(self, *arguments: str) -> Running:
        """Starts `headrace ARGUMENTS` in the folder; a run, which is no part of the cluster, with patience."""
        environment = {**self.environment(), **(RUN_TIMES if arguments[0] == "run" else {})}
        if not self._prefix:
            return start_with(environment, arguments, self.folder)
        return subprocess.Popen(
            [*self._prefix, sys.executable, "-m", "headrace", *arguments],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def environment(self) -> Mapping[str, str]:
        """What every process of the cluster has."""
        own = {"HEADRACE_HOME": str(self.home), "TMPDIR": str(self.temporary), "COLUMNS": "200"}
        if self._python_path:
            own["PYTHONPATH"] = os.pathsep.join(str(path) for path in self._python_path)
        return {**os.environ, **self._times, **own}

    def start(self, workers: int = 2, slots: int = 2) -> None:
        """Starts what is missing."""
        done = self.headrace("cluster", "start", "--workers", str(workers), "--slots", str(slots))
        assert done.code == 0, done.err

    def start_again(self) -> None:
        """Starts what has died."""
        done = self.headrace("cluster", "start")
        assert done.code == 0, done.err

    def stop(self) -> None:
        """Stops it."""
        done = self.headrace("cluster", "stop")
        assert done.code == 0, done.err

    def copy_jobs_to(self, other: Cluster) -> None:
        """Gives another home, which has no coordinator yet, the jobs of this one: their ledger, and its key."""
        shared = other.home / "cluster"
        shared.mkdir(mode=0o700, parents=True)
        # a job that runs has temporary files of records that are being put, which come and go
        ignored = shutil.ignore_patterns(".tmp-*")
        shutil.copytree(self.home / "cluster" / "ledger", shared / "ledger", ignore=ignored)
        shutil.copy(self.home / "cluster" / "key", shared / "key")

    # ---- asking --------------------------------------------------------------------------------------------------

    @property
    def client(self) -> Client:
        """A client of its coordinator, which may have been started again meanwhile: the ports stay."""
        if self._client is None:
            home = self.record_home
            document = json.loads(coordinator_file(home).read_text())
            authority = Path(document["tls_ca"]) if "tls_ca" in document else None
            self._client = Client(document["url"], recorded_token(home), authority=authority)
        return self._client

    @property
    def record_home(self) -> Home:
        """The home whose coordinator is asked."""
        return Home(self.home)

    def status(self, job: str) -> JobStatus | None:
        """None: the coordinator does not answer, or does not know it."""
        try:
            return self.client.status(job)
        except HeadraceError:
            return None

    def state(self, job: str) -> str:
        """The job's state; empty where nobody answers."""
        found = self.status(job)
        return "" if found is None else found.state

    def wait_state(self, job: str, state: str) -> JobStatus:
        """Waits for it; gives the status that had it."""
        seen: list[JobStatus] = []

        def is_so() -> bool:
            found = self.status(job)
            seen[:] = [] if found is None else [found]
            return found is not None and found.state == state

        wait_until(is_so, f"job {job} is {state}, not {self.status(job)}")
        return seen[0]

    def wait_free(self, slots: int) -> None:
        """Waits until so many slots are idle."""
        wait_until(lambda: self.client.cluster().slots_free == slots, f"{slots} slots are free")

    def elections(self) -> Sequence[datetime]:
        """When one of its coordinators was elected; none in a cluster without standbys."""
        return ()

    def hosts_of(self, job: str) -> dict[str, int]:
        """How many slots run the job on each worker now."""
        status = self.client.status(job)
        places = {(each.slot, each.worker) for node in status.nodes for each in node.subtasks if each.worker}
        return dict(Counter(worker for _, worker in places if worker))

    # ---- processes -----------------------------------------------------------------------------------------------

    def processes(self, role: str = "headrace") -> dict[int, str]:
        """Running processes of the home, or of one inside of it, whose command line holds `role`: pid -> command
        line."""
        own = f"HEADRACE_HOME={self.home}".encode()
        found = {}
        for pid in all_pids():
            try:
                variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                if not any(each == own or each.startswith(own + b"/") for each in variables):
                    continue
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            except OSError:
                continue  # it has just ended
            if role in command and is_running(pid):
                found[pid] = command
        # a child that is about to become another program is still called as its parent
        return {pid: command for pid, command in found.items() if found.get(parent_of(pid)) != command}

    def coordinator(self) -> int:
        """Its pid."""
        (pid,) = self.processes(COORDINATOR)
        return pid

    def worker(self, number: int = 1) -> int:
        """The pid of a supervisor."""
        (pid,) = (pid for pid, command in self.processes(WORKER).items() if f"--id worker-{number} " in command)
        return pid

    def connector_hosts(self) -> list[int]:
        """Pids; a job that starts again has none for a moment."""
        return list(self.processes(CONNECTOR_HOST))

    def slots(self, worker: int | None = None) -> list[int]:
        """Slots' pids: all, or those of the supervisor with that pid."""
        return [pid for pid in self.processes(SLOT) if worker is None or parent_of(pid) == worker]

    def busy_slots(self, job: str, worker: int | None = None) -> list[int]:
        """Slots that run an attempt now: those whose name the coordinator shows in the job's status."""
        status = self.client.status(job)
        names = {each.slot for node in status.nodes for each in node.subtasks if each.slot is not None}
        mine = self.processes(SLOT)
        return [
            pid
            for pid, command in mine.items()
            if any(name in command for name in names) and (worker is None or parent_of(pid) == worker)
        ]

    def wait_busy_slots(self, job: str) -> list[int]:
        """The same, once there are some: a job that starts again has none for a moment."""
        found: list[int] = []

        def some() -> bool:
            found[:] = self.busy_slots(job)
            return bool(found)

        wait_until(some, f"slots run job {job}")
        return found

    def remains(self) -> list[str]:
        """Whatever a stopped cluster must not leave behind.

        What a writer that was killed had begun in checkpoint storage is not meant: it is collected after an hour.
        """
        found = [f"process {pid}: {command}" for pid, command in self.processes().items()]
        found += [f"temporary {path}" for path in self.temporary.iterdir()]
        for path in self.home.rglob("*"):
            if path.is_socket() or path.name.startswith(".coordinator.json"):
                found.append(f"file {path}")
            elif path.name == "lock" and is_held(path):
                found.append(f"held lock {path}")
        return found

    def wait_nothing_remains(self) -> None:
        """Waits until it has left nothing."""
        wait_nothing_remains(self.remains, self.processes)

    def end(self) -> None:
        """Stops the cluster, and fails if anything of it is left; whatever there is, it is ended."""
        try:
            self.stop()
            remains = self.remains()
            assert not remains, remains
        finally:
            _signal(signal.SIGKILL, self.processes())
            if self._client is not None:
                self._client.close()


def is_held(lock: Path) -> bool:
    """Whether some process holds the lock of a file."""
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextmanager
def running_cluster(
    folder: Path,
    *,
    workers: int = 2,
    slots: int = 2,
    python_path: Sequence[Path] = (),
    times: Mapping[str, str] = CLUSTER_TIMES,
) -> Iterator[Cluster]:
    """A cluster that has started; ended at the end, and checked for what it leaves."""
    cluster = Cluster(folder, python_path=python_path, times=times)
    try:
        cluster.start(workers, slots)
        yield cluster
    finally:
        cluster.end()


def kill(*pids: int) -> None:
    """kill -9, and waits until they are gone. One that ended with the one before it is as good."""
    _signal(signal.SIGKILL, pids)
    wait_gone(*pids)


def wait_gone(*pids: int) -> None:
    """Waits until none of them runs."""
    wait_until(lambda: not any(is_running(pid) for pid in pids), f"processes {pids} are gone")


@contextmanager
def frozen(*pids: int) -> Iterator[None]:
    """SIGSTOP, and SIGCONT at the end for those that are still there."""
    try:
        _signal(signal.SIGSTOP, pids)
        yield
    finally:
        _signal(signal.SIGCONT, pids)


def _signal(number: signal.Signals, pids: Iterable[int]) -> None:
    """To those that are still there."""
    for pid in pids:
        assert pid > 0, "not to this process's own group"
        with suppress(ProcessLookupError):
            os.kill(pid, number)
