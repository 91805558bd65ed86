"""Workers that are containers of a YARN application: the resource driver `yarn`.

The driver stores nothing: the ApplicationMaster of this process knows the containers, including those that an earlier
attempt has started. YARN keeps a worker's id as the number of its request (allocation request id, 64 bits), over
restarts of the ApplicationMaster and of the ResourceManager, so a container names its worker.

A released container gets SIGTERM and 250 ms later SIGKILL, by the nodes' settings; its worker was drained before. YARN
reports a released container as ended before that: its node receives the order with its next heartbeat.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import assert_never

from headrace.core.errors import ExternalError, InternalError
from headrace.resources.driver import WorkerPhase, WorkerReport
from headrace.yarn.master.allocation import Held, HeldPhase
from headrace.yarn.master.application_master import ApplicationMaster, Standing
from headrace.yarn.records import ContainerSize, Launch

_ID = re.compile(r"w(\d+)-(\d+)\Z")
_MADE_BITS = 24
"""At most 16 million workers in a term."""


def number_of(worker: str) -> int:
    """The number of `w<term>-<n>`."""
    found = _ID.match(worker)
    if found is None or int(found[2]) >> _MADE_BITS or int(found[1]) >> (62 - _MADE_BITS):
        raise InternalError(f"{worker!r} is no id of a worker")
    return int(found[1]) << _MADE_BITS | int(found[2])


def worker_of(number: int) -> str:
    """Inverse of `number_of`."""
    return f"w{number >> _MADE_BITS}-{number & ((1 << _MADE_BITS) - 1)}"


class WorkerContainers:
    """The driver. size: of each worker's container; launch: worker -> what its container runs."""

    def __init__(self, master: ApplicationMaster, size: ContainerSize, launch: Callable[[str], Launch]) -> None:
        self._master = master
        self._size = size
        self._launch = launch

    def start(self, worker: str) -> None:
        """Requests a container. Raises ExternalError if the cluster grants none of that size, or the application is
        over."""
        try:
            standing = self._master.standing()
            require_grantable(self._size, standing.maximum)
            self._master.request(number_of(worker), self._launch(worker))
        except ExternalError as error:
            raise ExternalError(
                f"worker {worker} cannot be started: {error.message}", remedy=error.remedy, retry=error.retry
            ) from error

    def release(self, worker: str) -> None:
        """Gives the container back, or withdraws the request."""
        self._master.release(number_of(worker))

    def workers(self) -> tuple[WorkerReport, ...]:
        """The containers, by id. Raises ExternalError until the ApplicationMaster is registered."""
        standing = self._master.standing()
        return tuple(sorted((self._report(each, standing) for each in standing.held), key=lambda each: each.worker))

    def close(self) -> None:
        """Has nothing to release: the ApplicationMaster outlives the term."""

    def _report(self, held: Held, standing: Standing) -> WorkerReport:
        worker = worker_of(held.number)
        match held.phase:
            case HeldPhase.REQUESTED:
                return WorkerReport(worker, WorkerPhase.PENDING, pending_reason(self._size, standing))
            case HeldPhase.GRANTED:
                return WorkerReport(worker, WorkerPhase.PENDING, f"container {held.container} starts at {held.node}")
            case HeldPhase.RUNNING:
                return WorkerReport(worker, WorkerPhase.RUNNING, is_leaving=held.node in standing.leaving)
            case HeldPhase.ENDED:
                return WorkerReport(worker, WorkerPhase.ENDED, f"container {held.container}: {held.reason}")
            case _:
                assert_never(held.phase)


def require_grantable(size: ContainerSize, maximum: ContainerSize) -> None:
    """Raises ExternalError for a container that is larger than any that the cluster grants."""
    if size.memory_mb > maximum.memory_mb or size.vcores > maximum.vcores:
        raise ExternalError(
            f"a container of {size.memory_mb} MB and {size.vcores} vcores is larger than the cluster grants: "
            f"{maximum.memory_mb} MB, {maximum.vcores} vcores",
            remedy="lower memory and vcores of the workers in --config",
        )


def pending_reason(size: ContainerSize, standing: Standing) -> str:
    """Why a request waits; empty: nothing unusual."""
    left = standing.headroom
    if left is None or (left.memory_mb >= size.memory_mb and left.vcores >= size.vcores):
        return ""
    return (
        f"queue {standing.queue} has {left.memory_mb} MB and {left.vcores} vcores left for this application; a worker "
        f"needs {size.memory_mb} MB and {size.vcores} vcores"
    )
