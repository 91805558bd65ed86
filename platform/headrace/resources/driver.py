"""The contract of a resource driver: it starts, lists and releases the workers of one cluster.

    start ──> PENDING ──> RUNNING ──> ENDED ──> not listed
                 └────────────┴────────> release ──^

A worker is a process, a container or a pod, and its id is used once. A driver's list is complete after a
restart of the coordinator and for the next leader, too: drivers store nothing. A driver decides nothing;
`coordinator.provisioning` decides how many workers there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class ResourceTarget(StrEnum):
    """The system that has the workers. LOCAL: processes of the coordinator's host; KUBERNETES: pods; YARN: containers
    of the application whose ApplicationMaster the coordinator is."""

    LOCAL = "local"
    KUBERNETES = "kubernetes"
    YARN = "yarn"


class WorkerPhase(StrEnum):
    """The phase of a worker. PENDING: the system has accepted it, and it does not run yet; RUNNING: its process
    runs; ENDED: its process has ended, and nothing restarts it."""

    PENDING = "pending"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """One worker, as its system shows it. reason: why it is pending, or why it has ended, in the system's words; empty
    if the system gives none. is_leaving: it runs, and its system is going to end it soon."""

    worker: str
    phase: WorkerPhase
    reason: str = ""
    is_leaving: bool = False


class ResourceDriver(Protocol):
    """The workers of one cluster. Blocking, with bounded calls; thread-safe."""

    def start(self, worker: str) -> None:
        """Asks the system for a worker, and does not wait until it runs. Does nothing if it was started before.

        Raises ExternalError with the system's reason, such as a quota; it may be called again then.
        """
        ...

    def release(self, worker: str) -> None:
        """Asks the system to end a worker, and does not wait until it has. Its process leaves in order, or is killed
        after a grace time. Does nothing if there is none. Raises ExternalError."""
        ...

    def workers(self) -> tuple[WorkerReport, ...]:
        """Lists the workers by id, until nothing is left of them. Contains each one that `start` has returned for.

        Raises ExternalError.
        """
        ...

    def close(self) -> None:
        """Releases connections, not workers. Idempotent."""
        ...
