"""The target `local`: the cluster of a home. Session clusters are restarted by `cluster start`, others by their
attendant."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headrace.core.settings import Home
from support.clusters.session import COORDINATOR, WORKER, Cluster, frozen, kill, wait_gone
from support.clusters.worker_process import parent_of
from support.deployed.deployment import Deployment, Mode
from support.processes.running import wait_until

ATTENDANT = "headrace-attendant"
DRAIN = {"HEADRACE_DRAIN": "1m"}


class HomeCluster(Cluster):
    """Once a cluster was made for a job, commands and client are for that one."""

    own: Path | None = None
    """The home of the cluster that was made for a job."""

    def environment(self) -> Mapping[str, str]:
        """Also of the commands that follow."""
        found = {**super().environment(), **DRAIN}
        return found if self.own is None else {**found, "HEADRACE_HOME": str(self.own)}

    @property
    def record_home(self) -> Home:
        """The one whose coordinator is asked."""
        return Home(self.own or self.home)


class HostDeployment:
    """times: settings of its processes, one of those in `support.patience`."""

    program_follows_leader = False

    def __init__(self, folder: Path, times: Mapping[str, str]) -> None:
        self.cluster = HomeCluster(folder, times=times)
        self._times = times
        self._elsewhere = 0

    @property
    def shared(self) -> Path:
        """Everything is on this host."""
        return self.cluster.folder

    @property
    def shared_there(self) -> str:
        """The same."""
        return str(self.shared)

    def start(self) -> None:
        """Two workers with two slots each."""
        self.cluster.start(workers=2, slots=2)

    def submit_alone(self, file: str, mode: Mode, *arguments: str) -> str:
        """The cluster gets a home in the home."""
        done = self.cluster.headrace("submit", file, "--mode", mode, "--parallelism", "2", *arguments)
        assert done.code == 0, done.err
        (self.cluster.own,) = self.cluster.home.glob("clusters/*")
        return done.out.strip()

    def workers_of(self, mode: Mode) -> int:
        """An own cluster has one worker with all slots."""
        return 2 if mode is Mode.SESSION else 1

    def kill_slot(self, job: str) -> None:
        """By its pid."""
        kill(self.cluster.wait_busy_slots(job)[0])

    def kill_worker(self, job: str) -> None:
        """It is started again."""
        kill(self._worker_of(job))
        self._restart()

    def kill_leader(self) -> None:
        """It is started again."""
        before = self.cluster.coordinator()
        kill(before)
        self._restart()
        wait_until(lambda: bool(self.cluster.processes(COORDINATOR).keys() - {before}), "it was started again")

    def kill_all(self) -> None:
        """But for what starts them again."""
        kill(*(pid for pid, command in self.cluster.processes().items() if ATTENDANT not in command))
        self._restart()

    def drain_worker(self, job: str) -> None:
        """SIGTERM. It is started again once it has left."""
        worker = self._worker_of(job)
        os.kill(worker, signal.SIGTERM)
        wait_gone(worker)
        self._restart()

    @contextmanager
    def leader_frozen(self, job: str) -> Iterator[None]:
        """There is no standby: the slots end with their lease."""
        slots = set(self.cluster.wait_busy_slots(job))
        with frozen(self.cluster.coordinator()):
            wait_until(lambda: not slots & set(self.cluster.slots()), "its slots have ended by their lease")
            yield

    @contextmanager
    def worker_cut_off(self, job: str) -> Iterator[None]:
        """There is no other host."""
        raise NotImplementedError
        yield

    @contextmanager
    def elsewhere(self) -> Iterator[Deployment]:
        """Another home."""
        self._elsewhere += 1
        other = HostDeployment(self.cluster.folder / f"elsewhere-{self._elsewhere}", self._times)
        try:
            yield other
        finally:
            other.end()

    def has_gone(self) -> bool:
        """The home stays, with what the job has logged."""
        return not self.cluster.processes()

    def end(self) -> None:
        """Stops a session; whatever is left of a cluster is an error."""
        self.cluster.own = None
        self.cluster.end()

    def _restart(self) -> None:
        if self.cluster.own is None:
            self.cluster.start_again()

    def _worker_of(self, job: str) -> int:
        worker = parent_of(self.cluster.wait_busy_slots(job)[0])
        assert worker in self.cluster.processes(WORKER)
        return worker
