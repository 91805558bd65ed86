"""A HeadraceCluster, or a HeadraceSnapshot, and what surrounds it. Blocking; one thread at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from headrace.checkpoint.savepoints.savepoint import delete_savepoint
from headrace.client.http import Client
from headrace.core.errors import HeadraceError, UserError
from headrace.deployment.kubernetes.cluster_spec import CLUSTER_NAME, ClusterSpec
from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Document
from headrace.kubernetes_operator.decisions import steps
from headrace.kubernetes_operator.decisions.cluster_machine import (
    ClusterResourceView,
    next_cluster_status,
    next_cluster_step,
)
from headrace.kubernetes_operator.decisions.job_view import Moment, NoDesire
from headrace.kubernetes_operator.decisions.snapshot_machine import (
    SnapshotView,
    TriggerFacts,
    next_snapshot_status,
    next_snapshot_step,
    own_folder,
)
from headrace.kubernetes_operator.resources.cluster_status import ClusterStatus
from headrace.kubernetes_operator.resources.conditions import announcements
from headrace.kubernetes_operator.resources.job import JobResourceStatus
from headrace.kubernetes_operator.resources.kinds import CLUSTER, JOB
from headrace.kubernetes_operator.resources.snapshot_resource import SnapshotSpec, SnapshotStatus
from headrace.kubernetes_operator.rounds import Decision
from headrace.kubernetes_operator.shell.cluster_access import ClusterAccess, Owner
from headrace.kubernetes_operator.shell.own_object import OwnObject
from headrace.kubernetes_operator.shell.resource_store import Key, ResourceStore, identity_of, status_of
from headrace.kubernetes_operator.shell.spec_reading import INVALID, spec_of


class ClusterWorld:
    """One HeadraceCluster. clock: the time now."""

    def __init__(self, key: Key, connection: Connection, clock: Callable[[], Moment]) -> None:
        self._key = key
        self._clock = clock
        self._clusters = ClusterAccess(connection)
        self._object = OwnObject(key, connection)

    def decide(self, result: steps.Result | None) -> Decision[ClusterStatus, steps.ClusterStep] | None:
        """Observes the object and the cluster. Raises ExternalError."""
        document = self._object.read()
        if document is None:
            return None
        owner = Owner.of(CLUSTER, document)
        seen = self._clusters.look(self._key.name, self._key.namespace, owner=owner)
        view = ClusterResourceView(
            identity=identity_of(document),
            spec=self._spec(document),
            facts=seen.facts,
            running=sum(phase == "Running" for phase in seen.view.coordinators.values()),
            workers=len(seen.view.workers),
            url=None if seen.view.leader is None else seen.view.leader.url,
            now=self._clock(),
            result=result,
        )
        status = status_of(document, ClusterStatus)
        return Decision(status, next_cluster_status(status, view), next_cluster_step(status, view))

    def record(self, decision: Decision[ClusterStatus, steps.ClusterStep]) -> None:
        """Writes the status, then events. Raises ConflictError, ExternalError."""
        before, after = decision.status, decision.after
        said = announcements(before.conditions, after.conditions, phase_before=before.state, phase=after.state)
        self._object.record(after, said, self._clock().text)

    def act(self, step: steps.ClusterStep) -> steps.Result | None:
        """Executes a step. Raises ExternalError, UserError."""
        match step:
            case steps.Wait():
                pass
            case steps.AddFinalizer() | steps.RemoveFinalizer():
                self._object.set_kept(is_kept=isinstance(step, steps.AddFinalizer))
            case steps.ApplyCluster(name, spec, digest):
                owner = Owner.of(CLUSTER, self._object.document)
                self._clusters.apply(name, self._key.namespace, spec, digest=digest, owner=owner)
            case steps.DeleteCluster(name):
                owner = Owner.of(CLUSTER, self._object.document)
                self._clusters.delete(name, self._key.namespace, owner=owner)
            case _:
                assert_never(step)
        return None

    def _spec(self, document: Document) -> ClusterSpec | NoDesire:
        if not CLUSTER_NAME.match(self._key.name):
            return NoDesire(INVALID, "the name of a cluster has at most 40 lower-case letters, digits and '-'")
        return spec_of(document, ClusterSpec)


class SnapshotWorld:
    """One HeadraceSnapshot. clock: the time now."""

    def __init__(self, key: Key, connection: Connection, clock: Callable[[], Moment]) -> None:
        self._namespace = key.namespace
        self._clock = clock
        self._store = ResourceStore(connection)
        self._clusters = ClusterAccess(connection)
        self._object = OwnObject(key, connection)

    # ---- decide --------------------------------------------------------------------------------------------------

    def decide(self, result: steps.Result | None) -> Decision[SnapshotStatus, steps.SnapshotStep] | None:
        """Observes the object, its job and its savepoint. Raises ExternalError."""
        document = self._object.read()
        if document is None:
            return None
        status = status_of(document, SnapshotStatus)
        view = self._view(document, status, result)
        after = next_snapshot_status(status, view)
        return Decision(status, after, next_snapshot_step(status, view), keeps_result=after.phase == status.phase)

    def _view(self, document: Document, status: SnapshotStatus, result: steps.Result | None) -> SnapshotView:
        read = spec_of(document, SnapshotSpec)
        spec = None if isinstance(read, NoDesire) else read
        cluster, job_id = "", None
        if spec is not None and status.phase in {"Pending", "InProgress"}:
            cluster, job_id = self._place_of_job(spec.job)
        bare = SnapshotView(
            identity=identity_of(document),
            spec=spec,
            cluster=cluster,
            job_id=job_id,
            job_state="",
            trigger=None,
            taken=None,
            now=self._clock(),
            result=result,
        )
        return bare if job_id is None else self._with_job(bare, status, job_id)

    def _with_job(self, bare: SnapshotView, status: SnapshotStatus, job_id: str) -> SnapshotView:
        try:
            with self._clusters.client(bare.cluster, self._namespace) as client:
                seen = replace(bare, job_state=client.status(job_id).state)
                if status.phase == "InProgress" and status.job_id is not None:
                    seen = replace(seen, trigger=_trigger(client, status), taken=_taken(client, seen, status.job_id))
                return seen
        except HeadraceError as error:
            return replace(bare, result=bare.result or steps.Delayed(str(error)))

    def _place_of_job(self, name: str) -> tuple[str, str | None]:
        """Cluster and id of the job that runs for a HeadraceJob."""
        document = self._store.find(Key(JOB, self._namespace, name))
        status = None if document is None else status_of(document, JobResourceStatus)
        if status is None or status.target is None or status.phase not in {"Running", "Stopping", "Ended"}:
            return "", None
        return status.target.cluster, status.job_id

    # ---- record and act ------------------------------------------------------------------------------------------

    def record(self, decision: Decision[SnapshotStatus, steps.SnapshotStep]) -> None:
        """Writes the status, then events. Raises ConflictError, ExternalError."""
        before, after = decision.status, decision.after
        said = announcements(before.conditions, after.conditions, phase_before=before.phase, phase=after.phase)
        self._object.record(after, said, self._clock().text)

    def act(self, step: steps.SnapshotStep) -> steps.Result | None:
        """Executes a step. Raises ExternalError, UserError."""
        match step:
            case steps.Wait():
                return None
            case steps.AddFinalizer() | steps.RemoveFinalizer():
                self._object.set_kept(is_kept=isinstance(step, steps.AddFinalizer))
                return None
            case steps.TakeSavepoint():
                with self._clusters.client(step.cluster, self._namespace) as client:
                    return _take(client, step)
            case steps.DisposeSavepoint(location):
                # no call of REST deletes a savepoint: this process needs access to the storage
                delete_savepoint(location)
                return steps.Disposed()
            case _:
                assert_never(step)


def _take(client: Client, step: steps.TakeSavepoint) -> steps.Result:
    try:
        return steps.Triggered(step.job_id, client.savepoint(step.job_id, step.folder).trigger_id)
    except UserError as error:
        return steps.Delayed(str(error)) if error.retry else steps.SavepointRefused(str(error))


def _trigger(client: Client, status: SnapshotStatus) -> TriggerFacts | None:
    if status.trigger is None or status.job_id is None:
        return None
    try:
        found = client.trigger(status.job_id, status.trigger)
    except UserError as error:
        # coordinators keep a bounded number of operations
        return TriggerFacts("failed", message=str(error))
    message = "" if found.error is None else found.error.message
    return TriggerFacts(found.status, found.path, message)


def _taken(client: Client, view: SnapshotView, job_id: str) -> str | None:
    """The savepoint in this snapshot's own folder, once it is complete."""
    folder = own_folder(view)
    if folder is None:
        return None
    savepoints = (each.path for each in client.checkpoints(job_id) if each.kind == "savepoint")
    return next((path for path in savepoints if path is not None and f"{folder}/" in path), None)
