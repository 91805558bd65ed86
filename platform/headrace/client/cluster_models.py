"""The documents of the REST API about the cluster itself."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headrace.client.models import Answer, Moment
from headrace.client.requests import Request

HOLD_SECONDS_MAX = 600.0
"""Longest time that one request holds a cluster."""


class ApplicationEnd(Request):
    """The program of an application has ended."""

    exit_code: int


class HoldRequest(Request):
    """Whoever waits for the end of the cluster's job waits longer: another job follows. 0: no longer."""

    seconds: float = Field(ge=0, le=HOLD_SECONDS_MAX)


class WorkerInfo(Answer):
    """A worker that is registered.

    cpu           cores that it and its slots use, since the heartbeat before; None: not reported
    memory_bytes  resident memory of it and its slots; None: not reported
    """

    worker: str
    host: str
    pid: int
    slots: int
    slots_free: int
    version: str
    registered_at: Moment | None = None
    cpu: float | None = None
    memory_bytes: int | None = None


class WorkerStacks(Answer):
    """The stacks of all threads of a worker and of its slots, as text."""

    worker: str
    text: str


class WorkerLogs(Answer):
    """The newest lines that a worker and its slots have logged, as text."""

    worker: str
    text: str


class ExpectedWorkerInfo(Answer):
    """A worker that was started and is not registered yet. `reason`: why, in the words of the system that has it."""

    worker: str
    phase: Literal["pending", "running", "ended"]
    reason: str | None = None


class EndedWorkerInfo(Answer):
    """A worker that has ended although nothing released it. `reason`: in the words of the system that had it."""

    worker: str
    reason: str


class ProvisioningInfo(Answer):
    """The workers that a cluster makes itself. `slots_max`: of its largest size; `trouble`: why there are too few;
    `ended`: the last ones that have ended, oldest first."""

    slots_max: int
    expected: tuple[ExpectedWorkerInfo, ...] = ()
    trouble: str | None = None
    ended: tuple[EndedWorkerInfo, ...] = ()


class ClusterInfo(Answer):
    """The cluster of a coordinator. `jobs_running`: jobs that have not ended; `application_exit_code`: of the program
    of an application, once it has ended; `held`: a client is about to submit the next job; `provisioning`: unless
    others start its workers.
    """

    cluster_id: str
    version: str
    workers: tuple[WorkerInfo, ...] = ()
    slots: int = 0
    slots_free: int = 0
    jobs_running: int = 0
    application_exit_code: int | None = None
    held: bool = False
    provisioning: ProvisioningInfo | None = None


class Health(Answer):
    """The coordinator answers. `standby`: it waits to lead, and answers everything else with the leader's address."""

    status: Literal["ok", "standby"] = "ok"
    version: str
