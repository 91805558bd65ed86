"""A HeadraceCluster and what surrounds it. Blocking; one thread at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from headrace.core.errors import ExternalError, InternalError, UserError
from headrace.deployment.kubernetes.cluster_spec import CLUSTER_NAME, ClusterSpec
from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Document
from headrace.operator.decisions.announcements import announcements
from headrace.operator.decisions.cluster_machine import ClusterResourceView, next_cluster_status, next_cluster_step
from headrace.operator.decisions.job_view import Moment, NoDesire
from headrace.operator.decisions.results import Delayed, Result
from headrace.operator.decisions.steps import (
    AddFinalizer,
    ApplyCluster,
    CancelJob,
    CreateSnapshot,
    DeleteCluster,
    DeleteSnapshot,
    DisposeSavepoint,
    RemoveFinalizer,
    Step,
    StopJob,
    Submit,
    TakeSavepoint,
    Wait,
)
from headrace.operator.resources.cluster_status import ClusterStatus
from headrace.operator.resources.kinds import CLUSTER
from headrace.operator.rounds import Decision
from headrace.operator.shell.cluster_access import ClusterAccess
from headrace.operator.shell.event_log import EventLog
from headrace.operator.shell.owner import Owner
from headrace.operator.shell.resource_store import Key, ResourceStore, identity_of, status_of
from headrace.operator.shell.spec_reading import INVALID, spec_of


class ClusterWorld:
    """One HeadraceCluster. clock: the time now."""

    def __init__(self, key: Key, connection: Connection, clock: Callable[[], Moment]) -> None:
        self._key = key
        self._clock = clock
        self._store = ResourceStore(connection)
        self._clusters = ClusterAccess(connection)
        self._events = EventLog(connection)
        self._document: Document = {}

    def decide(self, result: Result | None) -> Decision[ClusterStatus] | None:
        """Observes the object and the cluster. Raises ExternalError."""
        document = self._store.find(self._key)
        if document is None:
            return None
        self._document = document
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

    def record(self, decision: Decision[ClusterStatus]) -> None:
        """Writes the status, then events. Raises ConflictError, ExternalError."""
        before, after = decision.status, decision.after
        self._store.write_status(self._key, self._document, after)
        said = announcements(before.conditions, after.conditions, phase_before=before.state, phase=after.state)
        for each in said:
            self._events.write(CLUSTER, self._document, each, self._clock().text)

    def act(self, step: Step) -> Result | None:
        """Takes a step. A failure is a `Delayed`: the step is repeated."""
        try:
            self._act(step)
        except (ExternalError, UserError) as error:
            return Delayed(str(error))
        return None

    def _spec(self, document: Document) -> ClusterSpec | NoDesire:
        if not CLUSTER_NAME.match(self._key.name):
            return NoDesire(INVALID, "the name of a cluster has at most 40 lower-case letters, digits and '-'")
        return spec_of(document, ClusterSpec)

    def _act(self, step: Step) -> None:
        match step:
            case Wait():
                pass
            case AddFinalizer() | RemoveFinalizer():
                self._store.set_kept(self._key, self._document, is_kept=isinstance(step, AddFinalizer))
            case ApplyCluster(name, spec, digest):
                owner = Owner.of(CLUSTER, self._document)
                self._clusters.apply(name, self._key.namespace, spec, digest=digest, owner=owner)
            case DeleteCluster(name):
                self._clusters.delete(name, self._key.namespace)
            case (
                Submit()
                | StopJob()
                | CancelJob()
                | CreateSnapshot()
                | DeleteSnapshot()
                | TakeSavepoint()
                | DisposeSavepoint()
            ):
                raise InternalError("a cluster takes no step of a job")
            case _:
                assert_never(step)
