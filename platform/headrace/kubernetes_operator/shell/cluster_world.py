"""A HeadraceCluster and what surrounds it. Blocking; one thread at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

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
from headrace.kubernetes_operator.resources.cluster_status import ClusterStatus
from headrace.kubernetes_operator.resources.conditions import announcements
from headrace.kubernetes_operator.resources.kinds import CLUSTER
from headrace.kubernetes_operator.rounds import Decision
from headrace.kubernetes_operator.shell.cluster_access import ClusterAccess, Owner
from headrace.kubernetes_operator.shell.own_object import OwnObject
from headrace.kubernetes_operator.shell.resource_store import Key, identity_of, status_of
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
