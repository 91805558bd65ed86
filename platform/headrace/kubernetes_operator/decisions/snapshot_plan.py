"""Which snapshots of a job to create and to delete: by the clock, by a nonce, by retention. Pure.

Names are made of what calls for the snapshot, so that an operator that is killed after a creation creates no other one:

    JOB-nonce-7               savepointNonce 7
    JOB-periodic-29400123     the period of that number since the epoch
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.kubernetes_operator.decisions.job_view import JobView, SnapshotFacts
from headrace.kubernetes_operator.decisions.steps import CreateSnapshot, DeleteSnapshot
from headrace.kubernetes_operator.decisions.times import epoch_seconds
from headrace.kubernetes_operator.resources.job_spec import JobSpec
from headrace.kubernetes_operator.resources.job_status import JobResourceStatus
from headrace.kubernetes_operator.resources.snapshot_resource import SnapshotSpec


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


def snapshot_step(status: JobResourceStatus, view: JobView) -> CreateSnapshot | DeleteSnapshot | None:
    """The next change of the job's snapshots; None: they are as they should be."""
    if view.spec is None or view.identity.is_deleted:
        return None
    if status.phase == "Running" and view.spec.savepoint_nonce not in {0, status.savepoint_nonce}:
        name = nonce_name(view.identity.name, view.spec.savepoint_nonce)
        return CreateSnapshot(name, _spec(view.spec, view, disposal="keep"))
    return _due(status, view, view.spec) or _surplus(status, view, view.spec)


def _due(status: JobResourceStatus, view: JobView, spec: JobSpec) -> CreateSnapshot | None:
    if spec.snapshots is None or status.phase != "Running" or status.running_since is None:
        return None
    every_s = spec.snapshots.every_ms / 1_000
    period = int(view.now.seconds // every_s)
    last_s = max([epoch_seconds(status.running_since), *(each.created_s for each in _periodic(view))])
    if period <= int(last_s // every_s):
        return None
    return CreateSnapshot(f"{_stem(view)}{period}", _spec(spec, view, disposal="delete"))


def _surplus(status: JobResourceStatus, view: JobView, spec: JobSpec) -> DeleteSnapshot | None:
    """The oldest snapshot beyond those to keep. Failed ones count for themselves: they push out none that completed."""
    if spec.snapshots is None:
        return None
    for phase in ("Completed", "Failed"):
        same = [each for each in _newest_first(_periodic(view)) if each.phase == phase]
        # what a job starts from stays until it has state of its own
        surplus = [
            each for each in same[spec.snapshots.keep :] if each.location is None or each.location != status.origin
        ]
        if surplus:
            return DeleteSnapshot(surplus[-1].name)
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
