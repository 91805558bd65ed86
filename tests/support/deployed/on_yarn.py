"""The target `yarn`: containers of an application. YARN starts the next ApplicationMaster, which replaces workers.

An ApplicationMaster that is frozen is given up by YARN after its liveness interval, which is long: as on one host, the
slots end by their lease.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.clusters.session import COORDINATOR, WORKER, frozen, kill, wait_gone
from support.clusters.worker_process import parent_of
from support.deployed.deployment import PARALLELISM, Deployment, Mode
from support.deployed.on_a_host import DRAIN
from support.processes.running import wait_until
from support.yarn.cluster import Yarn
from support.yarn.session import YarnSession

WORKERS_MAX = 4


class YarnDeployment:
    """name: of the cluster; times: settings of its processes, one of those in `support.patience`."""

    program_follows_leader = True

    def __init__(self, yarn: Yarn, folder: Path, name: str, times: Mapping[str, str]) -> None:
        self._yarn, self._times = yarn, times
        self.cluster = YarnSession(yarn, folder, name, times={**times, **DRAIN})
        self._elsewhere = 0

    @property
    def shared(self) -> Path:
        """All nodes have it."""
        return self.cluster.folder

    @property
    def shared_there(self) -> str:
        """By the same name."""
        return str(self.shared)

    def start(self) -> None:
        """Workers come with jobs."""
        self.cluster.start(WORKERS_MAX)

    def submit_alone(self, file: str, mode: Mode, *arguments: str) -> str:
        """An application of its own."""
        return self.cluster.submit_alone(file, mode, *arguments, workers=WORKERS_MAX)

    def workers_of(self, mode: Mode) -> int:
        """One for each slot."""
        return PARALLELISM

    def kill_slot(self, job: str) -> None:
        """By its pid."""
        kill(self.cluster.wait_busy_slots(job)[0])

    def kill_worker(self, job: str) -> None:
        """Its container ends with it."""
        kill(self._worker_of(job))

    def kill_leader(self) -> None:
        """The ApplicationMaster."""
        self.cluster.kill_coordinator()

    def kill_all(self) -> None:
        """YARN starts the next ApplicationMaster."""
        before = self.cluster.coordinators()
        kill(*self.cluster.processes())
        wait_until(lambda: self.cluster.coordinators() not in ([], before), "the next attempt runs")

    def drain_worker(self, job: str) -> None:
        """SIGTERM, without the SIGKILL that YARN sends soon after it."""
        worker = self._worker_of(job)
        os.kill(worker, signal.SIGTERM)
        wait_gone(worker)

    @contextmanager
    def leader_frozen(self, job: str) -> Iterator[None]:
        """There is no standby: the slots end with their lease."""
        slots = set(self.cluster.wait_busy_slots(job))
        with frozen(*self.cluster.processes(COORDINATOR)):
            wait_until(lambda: not slots & set(self.cluster.slots()), "its slots have ended by their lease")
            yield

    @contextmanager
    def worker_cut_off(self, job: str) -> Iterator[None]:
        """The nodes are on one host."""
        raise NotImplementedError
        yield

    @contextmanager
    def elsewhere(self) -> Iterator[Deployment]:
        """Another application."""
        self._elsewhere += 1
        name = f"elsewhere-{self._elsewhere}"
        other = YarnDeployment(self._yarn, self.cluster.folder / name, name, self._times)
        try:
            yield other
        finally:
            other.end()

    def has_gone(self) -> bool:
        """The application has ended, and neither processes nor staged files are left."""
        return not self.cluster.remains()

    def end(self) -> None:
        """Stops a session; whatever is left of a cluster is an error."""
        self.cluster.end()

    def _worker_of(self, job: str) -> int:
        worker = parent_of(self.cluster.wait_busy_slots(job)[0])
        assert worker in self.cluster.processes(WORKER)
        return worker
