"""The next step for a HeadraceJob, by its recorded status. Pure.

A job's own cluster is applied before a submission and while the job runs, and deleted when no job runs. Deletions wait:
the finalizer goes last.
"""

from __future__ import annotations

import hashlib
from typing import assert_never

from headrace.deployment.kubernetes.cluster_spec import ClusterSpec
from headrace.kubernetes_operator.decisions.job_machine import submission_key
from headrace.kubernetes_operator.decisions.job_view import JobFacts, JobView
from headrace.kubernetes_operator.decisions.snapshot_plan import snapshot_step
from headrace.kubernetes_operator.decisions.steps import (
    AddFinalizer,
    ApplyCluster,
    CancelJob,
    DeleteCluster,
    JobStep,
    RemoveFinalizer,
    StopJob,
    Submit,
    Wait,
)
from headrace.kubernetes_operator.resources.job_status import JobResourceStatus

BUSY_SECONDS, IDLE_SECONDS = 0.5, 5.0
"""Between two looks: while a step is under way, and else."""
_DIGEST_CHARACTERS = 16


def next_step(status: JobResourceStatus, view: JobView) -> JobStep:
    """The step that the recorded status asks for."""
    if view.identity.is_deleted and not view.identity.is_kept:
        return Wait(IDLE_SECONDS)
    if not view.identity.is_deleted and not view.identity.is_kept:
        return AddFinalizer()
    match status.phase:
        case "Stopped" | "Ended":
            return _without_job(status, view)
        case "Submitting":
            return _given_up(view) or _submit(status, view)
        case "Starting":
            return _applied(view) or Wait(BUSY_SECONDS)
        case "Running":
            return _applied(view) or snapshot_step(status, view) or Wait(IDLE_SECONDS)
        case "Stopping":
            return _given_up(view) or _stop(status, view)
        case _:
            assert_never(status.phase)


def cluster_digest(spec: ClusterSpec) -> str:
    """Differs from that of another spec."""
    return hashlib.sha256(spec.model_dump_json(by_alias=True).encode()).hexdigest()[:_DIGEST_CHARACTERS]


def _without_job(status: JobResourceStatus, view: JobView) -> JobStep:
    own = None if view.spec is None else view.spec.own_cluster
    # one that is to be started again would be deleted for nothing
    is_idle = view.identity.is_deleted or status.phase == "Ended" or _is_suspended(view)
    if own is not None and is_idle and view.cluster.is_there:
        return DeleteCluster(view.identity.name)
    if view.identity.is_deleted:
        return RemoveFinalizer()
    return snapshot_step(status, view) or Wait(IDLE_SECONDS)


def _is_suspended(view: JobView) -> bool:
    return view.spec is not None and view.spec.state == "suspended"


def _given_up(view: JobView) -> DeleteCluster | None:
    """A deleted job whose own cluster does not come up: the job goes with the cluster, unless it owes a savepoint."""
    owes = view.spec is None or view.spec.own_cluster is None or view.spec.on_delete == "savepoint"
    if not view.identity.is_deleted or owes or view.cluster.leads or not view.cluster.is_there:
        return None
    return DeleteCluster(view.identity.name)


def _submit(status: JobResourceStatus, view: JobView) -> JobStep:
    applied = _applied(view)
    if applied is not None:
        return applied
    if not view.cluster.leads or status.target is None:
        return Wait(BUSY_SECONDS)
    origin = None if status.starts_empty else status.origin
    # the cluster has shown the end of the job before, whose journal may lack it if the coordinator died; a savepoint
    # that the user names for the first job may be one of a job that runs
    takes_over = origin is not None and status.job_id is not None
    return Submit(status.target, submission_key(status, view), origin, takes_over)


def _applied(view: JobView) -> ApplyCluster | None:
    """Applies the job's own cluster if it is not as the spec says."""
    own = None if view.spec is None else view.spec.own_cluster
    if own is None or view.identity.is_deleted:
        return None
    digest = cluster_digest(own)
    if view.cluster.deployed and view.cluster.applied == digest and not view.cluster.renewal_due:
        return None
    return ApplyCluster(view.identity.name, own, digest)


def _stop(status: JobResourceStatus, view: JobView) -> JobStep:
    stop, target = status.stop, status.target
    assert stop is not None and target is not None, "a job runs"
    if not isinstance(view.job, JobFacts):
        return Wait(BUSY_SECONDS)
    match stop.way:
        case "cut" if view.job.state not in {"STOPPING", "CANCELLING"}:
            folder = None if view.spec is None else view.spec.savepoint_folder
            return StopJob(target.cluster, view.job.job_id, folder)
        case "cancel" if view.job.state != "CANCELLING":
            return CancelJob(target.cluster, view.job.job_id)
        case "cut" | "cancel":
            return Wait(BUSY_SECONDS)
        case _:
            assert_never(stop.way)
