"""The steps of the operator, and their results: closed unions, one union of steps for each kind of resource. Pure.

A step may run twice: an operator that is killed before it has seen the result runs the step again. The next round sees
the result, which is lost when the operator dies.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.deployment.kubernetes.cluster_spec import ClusterSpec
from headrace.kubernetes_operator.resources.job import RunSpec
from headrace.kubernetes_operator.resources.snapshot_resource import SnapshotSpec


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do. pause_s: look again after this time at the latest."""

    pause_s: float


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Keep the object until `RemoveFinalizer`."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Let the object go."""


@dataclass(frozen=True, slots=True)
class ApplyCluster:
    """Apply a cluster that belongs to the resource. digest: of its spec, noted on the cluster."""

    name: str
    spec: ClusterSpec
    digest: str


@dataclass(frozen=True, slots=True)
class DeleteCluster:
    """Delete a cluster. Its Secret stays."""

    name: str


@dataclass(frozen=True, slots=True)
class Submit:
    """Submit a job -> Submitted, Refused. key: the cluster accepts it once; origin: path to start from; takes_over: the
    job of the origin has ended, although its journal may not say so."""

    spec: RunSpec
    key: str
    origin: str | None
    takes_over: bool = False


@dataclass(frozen=True, slots=True)
class StopJob:
    """Stop a job at a cut, with a savepoint in this folder or a last checkpoint -> StopFailed if it goes on."""

    cluster: str
    job_id: str
    folder: str | None


@dataclass(frozen=True, slots=True)
class CancelJob:
    """End a job at once. Its checkpoints stay."""

    cluster: str
    job_id: str


@dataclass(frozen=True, slots=True)
class CreateSnapshot:
    """Create a HeadraceSnapshot unless there is one of that name."""

    name: str
    spec: SnapshotSpec


@dataclass(frozen=True, slots=True)
class DeleteSnapshot:
    """Delete a HeadraceSnapshot."""

    name: str


@dataclass(frozen=True, slots=True)
class TakeSavepoint:
    """Trigger a savepoint of a running job -> Triggered, SavepointRefused."""

    cluster: str
    job_id: str
    folder: str | None


@dataclass(frozen=True, slots=True)
class DisposeSavepoint:
    """Delete the files of a savepoint -> Disposed."""

    location: str


JobStep = (
    Wait
    | AddFinalizer
    | RemoveFinalizer
    | ApplyCluster
    | DeleteCluster
    | Submit
    | StopJob
    | CancelJob
    | CreateSnapshot
    | DeleteSnapshot
)
SnapshotStep = Wait | AddFinalizer | RemoveFinalizer | TakeSavepoint | DisposeSavepoint
ClusterStep = Wait | AddFinalizer | RemoveFinalizer | ApplyCluster | DeleteCluster
Step = JobStep | SnapshotStep | ClusterStep


# ---- results ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Submitted:
    """The cluster accepted a job. key: of the submission."""

    key: str
    job_id: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A submission cannot succeed as it is. reason: one word in CamelCase."""

    key: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class StopFailed:
    """A job could not be stopped, and goes on."""

    job_id: str
    message: str


@dataclass(frozen=True, slots=True)
class Triggered:
    """A savepoint has begun. trigger: its name."""

    job_id: str
    trigger: str


@dataclass(frozen=True, slots=True)
class SavepointRefused:
    """A savepoint could not begin."""

    message: str


@dataclass(frozen=True, slots=True)
class Disposed:
    """The files of a savepoint are deleted."""


@dataclass(frozen=True, slots=True)
class Delayed:
    """A step did not succeed yet, and is repeated. message: why."""

    message: str


Result = Submitted | Refused | StopFailed | Triggered | SavepointRefused | Disposed | Delayed
