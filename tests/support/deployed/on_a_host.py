"""The target `local`: the cluster of a home. Session clusters are restarted by `cluster start`, others by their
attendant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headrace.core.settings import Home
from support.clusters.session import COORDINATOR, Cluster, kill
from support.deployed.deployment import Deployment, Mode
from support.deployed.on_processes import DRAIN, ProcessDeployment
from support.processes.running import wait_until

ATTENDANT = "headrace-attendant"


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


class HostDeployment(ProcessDeployment[HomeCluster]):
    """times: settings of its processes, one of those in `support.patience`."""

    program_follows_leader = False

    def __init__(self, folder: Path, times: Mapping[str, str]) -> None:
        super().__init__(HomeCluster(folder, times=times))
        self._times = times

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

    @contextmanager
    def elsewhere(self) -> Iterator[Deployment]:
        """Another home."""
        other = HostDeployment(self._folder_elsewhere(), self._times)
        try:
            yield other
        finally:
            other.end()

    def end(self) -> None:
        """Stops a session; whatever is left of a cluster is an error."""
        self.cluster.own = None
        self.cluster.end()

    def _restart(self) -> None:
        if self.cluster.own is None:
            self.cluster.start_again()
