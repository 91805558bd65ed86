"""The target `yarn`: containers of an application. YARN starts the next ApplicationMaster, which replaces workers.

An ApplicationMaster that is frozen is given up by YARN after its liveness interval, which is long: as on one host, the
slots end by their lease.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.clusters.session import kill
from support.deployed.deployment import PARALLELISM, Deployment, Mode
from support.deployed.on_processes import DRAIN, ProcessDeployment
from support.processes.running import wait_until
from support.yarn.cluster import Yarn
from support.yarn.session import YarnSession

WORKERS_MAX = 4


class YarnDeployment(ProcessDeployment[YarnSession]):
    """name: of the cluster; times: settings of its processes, one of those in `support.patience`."""

    program_follows_leader = True

    def __init__(self, yarn: Yarn, folder: Path, name: str, times: Mapping[str, str]) -> None:
        super().__init__(YarnSession(yarn, folder, name, times={**times, **DRAIN}))
        self._yarn, self._times = yarn, times

    def start(self) -> None:
        """Workers come with jobs."""
        self.cluster.start(WORKERS_MAX)

    def submit_alone(self, file: str, mode: Mode, *arguments: str) -> str:
        """An application of its own."""
        return self.cluster.submit_alone(file, mode, *arguments, workers=WORKERS_MAX)

    def workers_of(self, mode: Mode) -> int:
        """One for each slot."""
        return PARALLELISM

    def kill_leader(self) -> None:
        """The ApplicationMaster."""
        self.cluster.kill_coordinator()

    def kill_all(self) -> None:
        """YARN starts the next ApplicationMaster."""
        before = self.cluster.coordinators()
        kill(*self.cluster.processes())
        wait_until(lambda: self.cluster.coordinators() not in ([], before), "the next attempt runs")

    @contextmanager
    def elsewhere(self) -> Iterator[Deployment]:
        """Another application."""
        folder = self._folder_elsewhere()
        other = YarnDeployment(self._yarn, folder, folder.name, self._times)
        try:
            yield other
        finally:
            other.end()

    def has_gone(self) -> bool:
        """The application has ended, and neither processes nor staged files are left."""
        return not self.cluster.remains()
