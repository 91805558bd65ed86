"""A HeadraceJob with a simulated cluster around it: what the operator's decisions meet, without any I/O.

The cluster is as strict as the real one: a key is accepted once, a name runs once, a job that stops names its state.
A pipeline's text says how the job behaves: `refused ..` is not accepted, `broken ..` fails before it runs, `slow ..`
never gets slots, `forgetful ..` takes no checkpoint while it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.kubernetes.connection import ConflictError
from headrace.kubernetes_operator.decisions.job_conditions import next_status
from headrace.kubernetes_operator.decisions.job_steps import next_step
from headrace.kubernetes_operator.decisions.job_view import (
    FINAL_STATES,
    ClusterFacts,
    Identity,
    JobFacts,
    JobView,
    Moment,
)
from headrace.kubernetes_operator.decisions.steps import (
    AddFinalizer,
    CancelJob,
    JobStep,
    Refused,
    RemoveFinalizer,
    Result,
    StopFailed,
    StopJob,
    Submit,
    Submitted,
    Wait,
)
from headrace.kubernetes_operator.resources.conditions import time_text
from headrace.kubernetes_operator.resources.job import JobResourceStatus, JobSpec, RunSpec
from headrace.kubernetes_operator.rounds import Decision

NEXT_STATE = {
    "CREATED": "SCHEDULING",
    "SCHEDULING": "RUNNING",
    "STOPPING": "FINISHED",
    "CANCELLING": "CANCELED",
}
"""What a job does when it is left alone."""


@dataclass(slots=True)
class SimulatedRun:
    """A job of the cluster. took: the path that it started from; has_state: it has run, so it leaves some."""

    job_id: str
    pipeline: str
    took: str | None
    state: str = "CREATED"
    has_state: bool = False

    @property
    def left(self) -> str | None:
        """The path of its last state."""
        return f"state-of-{self.job_id}" if self.has_state else None

    def go_on(self) -> None:
        """One moment passes."""
        if self.state == "SCHEDULING" and self.pipeline.startswith("broken"):
            self.state = "FAILED"
        elif self.state != "SCHEDULING" or not self.pipeline.startswith("slow"):
            self.state = NEXT_STATE.get(self.state, self.state)
        keeps = self.state == "FINISHED" or not self.pipeline.startswith("forgetful")
        self.has_state = self.has_state or (self.state in {"RUNNING", "FINISHED"} and keeps)


@dataclass(slots=True)
class SimulatedCluster:
    """Jobs by id, in the order of their submission."""

    jobs: dict[str, SimulatedRun] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    failed_stops: int = 0
    """How many further stops fail."""

    def live(self) -> list[SimulatedRun]:
        """Jobs that have not ended."""
        return [each for each in self.jobs.values() if each.state not in FINAL_STATES]

    def submit(self, step: Submit) -> Submitted | Refused:
        if step.key in self.keys:
            return Submitted(step.key, self.keys[step.key])
        if step.spec.pipeline.startswith("refused"):
            return Refused(step.key, "InvalidPipeline", "pipeline:1:1: it is refused")
        if self.live():
            return Refused(step.key, "Refused", "a job of that name runs")
        job_id = f"job{len(self.jobs) + 1}"
        self.jobs[job_id] = SimulatedRun(job_id, step.spec.pipeline, step.origin)
        self.keys[step.key] = job_id
        return Submitted(step.key, job_id)

    def stop(self, job_id: str) -> StopFailed | None:
        job = self.jobs[job_id]
        if self.failed_stops and job.state == "RUNNING":
            self.failed_stops -= 1
            return StopFailed(job_id, "the savepoint's folder cannot be written")
        # one that does not run yet keeps the wish; asking again does no harm
        if job.state == "RUNNING":
            job.state = "STOPPING"
        return None

    def cancel(self, job_id: str) -> None:
        if self.jobs[job_id].state not in FINAL_STATES:
            self.jobs[job_id].state = "CANCELLING"


@dataclass(slots=True)
class SimulatedObject:
    """The HeadraceJob in the API server. version: changes with each write."""

    spec: dict[str, Any]
    generation: int = 1
    version: int = 1
    status: JobResourceStatus = field(default_factory=JobResourceStatus)
    is_kept: bool = False
    is_deleted: bool = False

    @property
    def is_gone(self) -> bool:
        """Whether the API server has let it go."""
        return self.is_deleted and not self.is_kept

    def edit(self, changes: Mapping[str, object]) -> None:
        """A user changes the spec."""
        self.spec |= changes
        self.generation += 1
        self.version += 1

    def delete(self) -> None:
        """A user deletes it."""
        self.is_deleted = True
        self.version += 1


class SimulatedWorld:
    """An operator's view of both. Each look lets a moment pass."""

    def __init__(self, target: SimulatedObject, cluster: SimulatedCluster, clock: list[int]) -> None:
        self._object = target
        self._cluster = cluster
        self._clock = clock
        self._version = 0

    def decide(self, result: Result | None) -> Decision[JobResourceStatus, JobStep] | None:
        if self._object.is_gone:
            return None
        self._clock[0] += 1
        for job in self._cluster.jobs.values():
            job.go_on()
        self._version = self._object.version
        status = self._object.status
        view = self._view(status, result)
        after = next_status(status, view)
        return Decision(status, after, next_step(status, view), keeps_result=after.phase == status.phase)

    def record(self, decision: Decision[JobResourceStatus, JobStep]) -> None:
        self._require_version()
        # as it comes back from the API server
        dumped = decision.after.model_dump(mode="json", by_alias=True, exclude_none=True)
        self._object.status = JobResourceStatus.model_validate(dumped)
        self._object.version += 1

    def act(self, step: JobStep) -> Result | None:
        match step:
            case AddFinalizer() | RemoveFinalizer():
                self._require_version()
                self._object.is_kept = isinstance(step, AddFinalizer)
                self._object.version += 1
            case Submit():
                return self._cluster.submit(step)
            case StopJob(job_id=job_id):
                return self._cluster.stop(job_id)
            case CancelJob(job_id=job_id):
                self._cluster.cancel(job_id)
            case Wait():
                pass
            case _:
                raise AssertionError(f"{step} is not simulated")
        return None

    def _require_version(self) -> None:
        if self._version != self._object.version:
            raise ConflictError("the object has changed", retry=True)

    def _view(self, status: JobResourceStatus, result: Result | None) -> JobView:
        spec = JobSpec.model_validate(self._object.spec)
        job = self._cluster.jobs.get(status.job_id or "")
        facts = None
        if job is not None and status.phase not in {"Stopped", "Ended", "Submitting"}:
            facts = JobFacts(job.job_id, job.state, origin=job.left)
        identity = Identity(
            "flights", "data", "uid", self._object.generation, self._object.is_deleted, self._object.is_kept
        )
        return JobView(
            identity=identity,
            spec=spec,
            desired=RunSpec(pipeline=str(spec.pipeline), cluster=str(spec.cluster), restartNonce=spec.restart_nonce),
            cluster=ClusterFacts(is_there=True, deployed=True, leads=True),
            job=facts,
            now=Moment(float(self._clock[0]), time_text(self._clock[0])),
            result=result,
        )
