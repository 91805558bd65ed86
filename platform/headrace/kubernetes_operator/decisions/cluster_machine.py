"""A HeadraceCluster: its next status and step. Pure.

A cluster has no phases: it is applied again whenever it differs from its spec, and its status shows the observation.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.deployment.kubernetes.cluster_spec import ClusterSpec
from headrace.kubernetes_operator.decisions import steps
from headrace.kubernetes_operator.decisions.job_steps import cluster_digest
from headrace.kubernetes_operator.decisions.job_view import ClusterFacts, Identity, Moment, NoDesire
from headrace.kubernetes_operator.resources.cluster_status import ClusterStatus
from headrace.kubernetes_operator.resources.conditions import DEGRADED, READY, condition, dated

BUSY_SECONDS, IDLE_SECONDS = 1.0, 10.0


@dataclass(frozen=True, slots=True)
class ClusterResourceView:
    """Everything that a decision depends on, beside the status. running: coordinators that run; url: of the leader."""

    identity: Identity
    spec: ClusterSpec | NoDesire
    facts: ClusterFacts
    running: int
    workers: int
    url: str | None
    now: Moment
    result: steps.Result | None = None


def next_cluster_status(status: ClusterStatus, view: ClusterResourceView) -> ClusterStatus:
    """The status to record next."""
    is_ready = view.facts.leads and view.running > 0 and not view.identity.is_deleted
    state = "Deleting" if view.identity.is_deleted else "Leading" if is_ready else "Starting"
    replicas = view.spec.coordinator.replicas if isinstance(view.spec, ClusterSpec) else 0
    reason, message = _trouble(view)
    conditions = (
        condition(READY, state, message, is_so=is_ready),
        condition(DEGRADED, reason or "AsDescribed", message, is_so=bool(reason)),
    )
    generation = view.identity.generation
    return status.model_copy(
        update={
            "state": state,
            "url": view.url if is_ready else None,
            "coordinators": f"{view.running}/{replicas}",
            "workers": view.workers,
            "applied": view.facts.applied,
            "observed_generation": generation,
            "conditions": dated(conditions, status.conditions, now=view.now.text, generation=generation),
        }
    )


def next_cluster_step(status: ClusterStatus, view: ClusterResourceView) -> steps.ClusterStep:
    """The step that follows."""
    identity = view.identity
    if identity.is_deleted:
        if not identity.is_kept:
            return steps.Wait(IDLE_SECONDS)
        return steps.DeleteCluster(identity.name) if view.facts.is_there else steps.RemoveFinalizer()
    if not identity.is_kept:
        return steps.AddFinalizer()
    if isinstance(view.spec, ClusterSpec):
        digest = cluster_digest(view.spec)
        if not view.facts.deployed or view.facts.applied != digest or view.facts.renewal_due:
            return steps.ApplyCluster(identity.name, view.spec, digest)
    return steps.Wait(IDLE_SECONDS if status.state == "Leading" else BUSY_SECONDS)


def _trouble(view: ClusterResourceView) -> tuple[str, str]:
    """Reason and message of what is wrong; empty: nothing is known to be."""
    if isinstance(view.spec, NoDesire):
        return view.spec.reason, view.spec.message
    if isinstance(view.result, steps.Delayed):
        return "NotApplied", view.result.message
    if view.facts.trouble:
        return "PodsDoNotRun", view.facts.trouble
    return "", ""
