"""What is the same on all targets whose processes are this machine's own: faults by pid, and folders that all see."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

from support.clusters.session import COORDINATOR, WORKER, Cluster, frozen, kill, wait_gone
from support.clusters.worker_process import parent_of
from support.processes.running import wait_until

DRAIN = {"HEADRACE_DRAIN": "1m"}
"""For the environment of workers, which SIGTERM drains then."""


C = TypeVar("C", bound=Cluster)


class ProcessDeployment(Generic[C]):
    """The part of a `deployment.Deployment` that finds processes. Not a whole one."""

    def __init__(self, cluster: C) -> None:
        self.cluster = cluster
        self._elsewhere = 0

    @property
    def shared(self) -> Path:
        """Everything sees the cluster's folder."""
        return self.cluster.folder

    @property
    def shared_there(self) -> str:
        """By the same name."""
        return str(self.shared)

    def kill_slot(self, job: str) -> None:
        """By its pid."""
        kill(self.cluster.wait_busy_slots(job)[0])

    def kill_worker(self, job: str) -> None:
        """By its pid. It is started again."""
        kill(self._worker_of(job))
        self._restart()

    def drain_worker(self, job: str) -> None:
        """SIGTERM. It is started again once it has left."""
        worker = self._worker_of(job)
        os.kill(worker, signal.SIGTERM)
        wait_gone(worker)
        self._restart()

    @contextmanager
    def leader_frozen(self, job: str) -> Iterator[None]:
        """Without a standby the slots end with their lease."""
        slots = set(self.cluster.wait_busy_slots(job))
        with frozen(*self.cluster.processes(COORDINATOR)):
            wait_until(lambda: not slots & set(self.cluster.slots()), "its slots have ended by their lease")
            yield

    @contextmanager
    def worker_cut_off(self, job: str) -> Iterator[None]:
        """Without another host."""
        raise NotImplementedError
        yield

    def has_gone(self) -> bool:
        """Homes stay, with what the job has logged."""
        return not self.cluster.processes()

    def end(self) -> None:
        """Stops a session; whatever is left of a cluster is an error."""
        self.cluster.end()

    def _folder_elsewhere(self) -> Path:
        self._elsewhere += 1
        return self.cluster.folder / f"elsewhere-{self._elsewhere}"

    def _restart(self) -> None:
        """Starts what has died, unless something else does."""

    def _worker_of(self, job: str) -> int:
        worker = parent_of(self.cluster.wait_busy_slots(job)[0])
        assert worker in self.cluster.processes(WORKER)
        return worker
