"""The next step for a HeadraceJob, by its recorded status, and for its snapshots. Pure.

A job's own cluster is applied before a submission and while the job runs, and deleted when no job runs. The finalizer
is removed last, after all deletions.

Snapshots are created by the clock and by a nonce, and deleted by retention. The cause of a snapshot names it, so an
operator that is killed after a creation does not create it again:

    JOB-nonce-7               savepointNonce 7
    JOB-periodic-29400123     the period of that number since the epoch
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import assert_never

from headrace.deployment.kubernetes.cluster_spec import ClusterSpec
from headrace.kubernetes_operator.decisions import steps
from headrace.kubernetes_operator.decisions.job_machine import submission_key
from headrace.kubernetes_operator.decisions.job_view import JobFacts, JobView, SnapshotFacts
from headrace.kubernetes_operator.resources.conditions import epoch_seconds
from headrace.kubernetes_operator.resources.job import JobResourceStatus, JobSpec
from headrace.kubernetes_operator.resources.snapshot_resource import SnapshotSpec

# ---- snapshots -------------------------------------------------------------------------------------------------------


def nonce_name(job: str, nonce: int) -> str:
    """The snapshot of a value of savepointNonce."""
    return f"{job}-nonce-{nonce}"


def noted(status: JobResourceStatus, view: JobView) -> JobResourceStatus:
    """The status with what snapshots that exist have brought: the nonce that is served, the newest location."""
    names = {each.name for each in view.snapshots}
    changes: dict[str, object] = {}
    if view.spec is not None and nonce_name(view.identity.name, view.spec.savepoint_nonce) in names:
        changes["savepoint_nonce"] = view.spec.savepoint_nonce
    newest = next((each.location for each in _newest_first(view.snapshots) if each.location is not None), None)
    # a stop with a savepoint is newer than any snapshot: no job runs that could be snapshot
    if newest is not None and status.phase == "Running":
        changes["last_savepoint"] = newest
    return status.model_copy(update=changes)


def snapshot_step(status: JobResourceStatus, view: JobView) -> steps.CreateSnapshot | steps.DeleteSnapshot | None:
    """The next change of the job's snapshots; None: they are as they should be."""
    if view.spec is None or view.identity.is_deleted:
        return None
    if status.phase == "Running" and view.spec.savepoint_nonce not in {0, status.savepoint_nonce}:
        name = nonce_name(view.identity.name, view.spec.savepoint_nonce)
        return steps.CreateSnapshot(name, _spec(view.spec, view, disposal="keep"))
    return _due(status, view, view.spec) or _surplus(status, view, view.spec)


def _due(status: JobResourceStatus, view: JobView, spec: JobSpec) -> steps.CreateSnapshot | None:
    if spec.snapshots is None or status.phase != "Running" or status.running_since is None:
        return None
    every_s = spec.snapshots.every_ms / 1_000
    period = int(view.now.seconds // every_s)
    last_s = max([epoch_seconds(status.running_since), *(each.created_s for each in _periodic(view))])
    if period <= int(last_s // every_s):
        return None
    return steps.CreateSnapshot(f"{_stem(view)}{period}", _spec(spec, view, disposal="delete"))


def _surplus(status: JobResourceStatus, view: JobView, spec: JobSpec) -> steps.DeleteSnapshot | None:
    """The oldest snapshot beyond those to keep. Failed ones count for themselves: they push out none that completed."""
    if spec.snapshots is None:
        return None
    for phase in ("Completed", "Failed"):
        same = [each for each in _newest_first(_periodic(view)) if each.phase == phase]
        # the snapshot that a job starts from stays until the job has a state of its own
        surplus = [
            each for each in same[spec.snapshots.keep :] if each.location is None or each.location != status.origin
        ]
        if surplus:
            return steps.DeleteSnapshot(surplus[-1].name)
    return None


def _periodic(view: JobView) -> Sequence[SnapshotFacts]:
    return [each for each in view.snapshots if each.name.startswith(_stem(view))]


def _stem(view: JobView) -> str:
    return f"{view.identity.name}-periodic-"


def _newest_first(snapshots: Sequence[SnapshotFacts]) -> Sequence[SnapshotFacts]:
    return sorted(snapshots, key=lambda each: (each.created_s, each.name), reverse=True)


def _spec(spec: JobSpec, view: JobView, *, disposal: str) -> SnapshotSpec:
    return SnapshotSpec.model_validate(
        {"job": view.identity.name, "folder": spec.savepoint_folder, "disposal": disposal}
    )


BUSY_SECONDS, IDLE_SECONDS = 0.5, 5.0
"""Pauses between two rounds: while a step is under way, and otherwise."""
_DIGEST_CHARACTERS = 16


def next_step(status: JobResourceStatus, view: JobView) -> steps.JobStep:
    """The step that the recorded status asks for."""
    if view.identity.is_deleted and not view.identity.is_kept:
        return steps.Wait(IDLE_SECONDS)
    if not view.identity.is_deleted and not view.identity.is_kept:
        return steps.AddFinalizer()
    match status.phase:
        case "Stopped" | "Ended":
            return _without_job(status, view)
        case "Submitting":
            return _given_up(view) or _submit(status, view)
        case "Starting":
            return _applied(view) or steps.Wait(BUSY_SECONDS)
        case "Running":
            return _applied(view) or snapshot_step(status, view) or steps.Wait(IDLE_SECONDS)
        case "Stopping":
            return _given_up(view) or _stop(status, view)
        case _:
            assert_never(status.phase)


def cluster_digest(spec: ClusterSpec) -> str:
    """Differs from that of another spec."""
    return hashlib.sha256(spec.model_dump_json(by_alias=True).encode()).hexdigest()[:_DIGEST_CHARACTERS]


def _without_job(status: JobResourceStatus, view: JobView) -> steps.JobStep:
    own_cluster = None if view.spec is None else view.spec.own_cluster
    # one that is to be started again would be deleted for nothing
    is_idle = view.identity.is_deleted or status.phase == "Ended" or _is_suspended(view)
    if own_cluster is not None and is_idle and view.cluster.is_there:
        return steps.DeleteCluster(view.identity.name)
    if view.identity.is_deleted:
        return steps.RemoveFinalizer()
    return snapshot_step(status, view) or steps.Wait(IDLE_SECONDS)


def _is_suspended(view: JobView) -> bool:
    return view.spec is not None and view.spec.state == "suspended"


def _given_up(view: JobView) -> steps.DeleteCluster | None:
    """A deleted job whose own cluster does not come up: the job goes with the cluster, unless it owes a savepoint."""
    owes = view.spec is None or view.spec.own_cluster is None or view.spec.on_delete == "savepoint"
    if not view.identity.is_deleted or owes or view.cluster.leads or not view.cluster.is_there:
        return None
    return steps.DeleteCluster(view.identity.name)


def _submit(status: JobResourceStatus, view: JobView) -> steps.JobStep:
    applied = _applied(view)
    if applied is not None:
        return applied
    if not view.cluster.leads or status.target is None:
        return steps.Wait(BUSY_SECONDS)
    origin = None if status.starts_empty else status.origin
    # the cluster has shown the end of the job before, whose journal may lack it if the coordinator died; a savepoint
    # that the user names for the first job may be one of a job that runs
    takes_over = origin is not None and status.job_id is not None
    return steps.Submit(status.target, submission_key(status, view), origin, takes_over)


def _applied(view: JobView) -> steps.ApplyCluster | None:
    """Applies the job's own cluster if it differs from the spec."""
    own_cluster = None if view.spec is None else view.spec.own_cluster
    if own_cluster is None or view.identity.is_deleted:
        return None
    digest = cluster_digest(own_cluster)
    if view.cluster.deployed and view.cluster.applied == digest and not view.cluster.renewal_due:
        return None
    return steps.ApplyCluster(view.identity.name, own_cluster, digest)


def _stop(status: JobResourceStatus, view: JobView) -> steps.JobStep:
    stop, target = status.stop, status.target
    assert stop is not None and target is not None, "a job runs"
    if not isinstance(view.job, JobFacts):
        return steps.Wait(BUSY_SECONDS)
    match stop.way:
        case "cut" if view.job.state not in {"STOPPING", "CANCELLING"}:
            folder = None if view.spec is None else view.spec.savepoint_folder
            return steps.StopJob(target.cluster, view.job.job_id, folder)
        case "cancel" if view.job.state != "CANCELLING":
            return steps.CancelJob(target.cluster, view.job.job_id)
        case "cut" | "cancel":
            return steps.Wait(BUSY_SECONDS)
        case _:
            assert_never(stop.way)
