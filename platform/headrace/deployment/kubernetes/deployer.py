"""Starts, inspects and stops a cluster on Kubernetes. Blocking; every step may be repeated.

    start   ConfigMap, Services, budget, policies, work; the Secrets, unless they are there; the Deployment, which then
            owns the others; budget and policies that are no longer asked for are deleted
    stop    the Deployment with its pods and all that it owns, then the Lease; Secrets stay, unless they are to go

Secrets outlive the cluster: without the key nobody can read the jobs of the ledger, and a cluster of that name that is
started again goes on with them. A cluster that serves one job or application is not started again: its Secrets go.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.core.errors import ExternalError
from headrace.deployment.kubernetes.attendant_pods import work_secret
from headrace.deployment.kubernetes.certificates import Certificates, certificate_names
from headrace.deployment.kubernetes.cluster_spec import KubernetesCluster
from headrace.deployment.kubernetes.coordinator_pods import coordinator_trouble, refused_pods
from headrace.deployment.kubernetes.manifests import control_service, deployment, owned_documents, secret
from headrace.deployment.kubernetes.protections import BUDGET, POLICY, protection_names
from headrace.kubernetes.collection import Collection
from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Document, metadata_of
from headrace.kubernetes.refusals import AlreadyExistsError, ForbiddenError, NotFoundError
from headrace.leadership.leader import Leader
from headrace.leadership.lease_record import API, PLURAL, LeaseRecord
from headrace.resources.kubernetes.labels import COORDINATOR, WORKER, selector_of
from headrace.resources.kubernetes.worker_pod import Owner

MANAGER = "headrace"
"""The owner of fields in server-side apply."""
START_SECONDS, STOP_SECONDS = 300.0, 180.0
LOOK_SECONDS = 0.5
_SECRET_BYTES = 32
_PLURALS = {
    "ConfigMap": ("v1", "configmaps"),
    "Service": ("v1", "services"),
    "Secret": ("v1", "secrets"),
    "Deployment": ("apps/v1", "deployments"),
    BUDGET: ("policy/v1", "poddisruptionbudgets"),
    POLICY: ("networking.k8s.io/v1", "networkpolicies"),
}


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster as Kubernetes shows it. Pods: name -> phase; trouble: why a coordinator does not run, or empty."""

    exists: bool
    coordinators: Mapping[str, str]
    workers: Mapping[str, str]
    leader: Leader | None
    trouble: str


class Deployer:
    """The clusters of one API server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def start(self, cluster: KubernetesCluster, report: Callable[[str], None] = lambda _line: None) -> Leader:
        """Applies the cluster's objects, and waits until a coordinator leads. report: receives lines of progress.

        Raises ExternalError: for what the API server refuses, and with the pods' reason if none leads in time. What was
        applied stays then, because the reason can be looked at and removed.
        """
        before = self._deployment(cluster.name, cluster.namespace)
        if before is not None and metadata_of(before).is_deleted:
            # what is applied to an object that is being deleted goes with it
            report("the cluster before it is being deleted")
            self._wait_gone(cluster.name, cluster.namespace)
        self.apply(cluster)
        return self._wait_leader(cluster, report)

    def apply(self, cluster: KubernetesCluster) -> None:
        """Applies the cluster's objects, and does not wait. Whoever has just deleted a cluster of that name waits until
        it is gone: what is applied to an object that is being deleted goes with it. Raises ExternalError.
        """
        before = self._deployment(cluster.name, cluster.namespace)
        # before the pods that mount it, and again once it can belong to the Deployment
        self._apply_owned(cluster, before)
        self._make_secret(cluster)
        certificates = Certificates(self._connection, cluster.namespace)
        if cluster.spec.tls:
            certificates.ensure(
                cluster, certificate_names(cluster.name, cluster.namespace, control_service(cluster.name))
            )
        deployed = self._apply(deployment(cluster))
        if before is None:
            self._apply_owned(cluster, deployed)
        if cluster.work is not None:
            owner = _reference(cluster, deployed)
            owned = {"metadata": {"ownerReferences": [owner]}}
            self._connection.patch(_collection("Secret", cluster.namespace), cluster.name, owned)
            certificates.own(cluster, owner)
        applied = {(each["kind"], each["metadata"]["name"]) for each in owned_documents(cluster)}
        self._delete_protections(cluster.name, cluster.namespace, keep=applied)

    def stop(self, name: str, namespace: str, *, with_secret: bool) -> bool:
        """Deletes the cluster's objects, and waits until its pods are gone. Returns whether there was a cluster.

        Jobs are suspended as at any end of a coordinator. Raises ExternalError.
        """
        existed = self._delete("Deployment", name, namespace, propagation="Foreground")
        self._wait_gone(name, namespace)
        # of a start that was interrupted: nothing owned them yet
        for kind, named in (("ConfigMap", name), ("Service", name), ("Service", control_service(name))):
            existed = self._delete(kind, named, namespace) or existed
        # an operator's clusters have none, and it needs no right for it
        with contextlib.suppress(ForbiddenError):
            existed = self._delete("Secret", work_secret(name), namespace) or existed
        self._delete_protections(name, namespace, keep=())
        with contextlib.suppress(NotFoundError):
            self._connection.delete(_leases(namespace), name)
        if with_secret:
            existed = self._delete("Secret", name, namespace) or existed
            Certificates(self._connection, namespace).delete(name)
        return existed

    def view(self, name: str, namespace: str) -> ClusterView:
        """Returns what there is of a cluster."""
        exists = self._deployment(name, namespace) is not None
        coordinators = self._pods(name, namespace, COORDINATOR)
        return ClusterView(
            exists,
            {metadata_of(each).name: _phase(each) for each in coordinators},
            {metadata_of(each).name: _phase(each) for each in self._pods(name, namespace, WORKER)},
            self.leader(name, namespace),
            coordinator_trouble(coordinators),
        )

    def leader(self, name: str, namespace: str) -> Leader | None:
        """The leader as it has published its address in the Lease."""
        try:
            record = LeaseRecord.of(self._connection.get(_leases(namespace), name))
        except NotFoundError:
            return None
        return record.leader(f"Lease {name}")

    def is_certificate_due(self, name: str, namespace: str) -> bool:
        """Whether the next apply would issue the certificate of a cluster anew. False for a cluster without one."""
        names = certificate_names(name, namespace, control_service(name))
        return Certificates(self._connection, namespace).is_due(name, names)

    # ---- inside --------------------------------------------------------------------------------------------------

    def _apply(self, document: Mapping[str, Any]) -> dict[str, Any]:
        metadata = document["metadata"]
        collection = _collection(document["kind"], metadata["namespace"])
        applied: dict[str, Any] = self._connection.apply(collection, metadata["name"], document, manager=MANAGER)
        return applied

    def _apply_owned(self, cluster: KubernetesCluster, deployed: Document | None) -> None:
        """Applies what belongs to the Deployment; None: there is none yet."""
        for document in owned_documents(cluster):
            metadata = document["metadata"]
            if deployed is not None:
                metadata = {**metadata, "ownerReferences": [_reference(cluster, deployed)]}
            self._apply({**document, "metadata": metadata})

    def _make_secret(self, cluster: KubernetesCluster) -> None:
        token, key = (secrets.token_urlsafe(_SECRET_BYTES) for _ in range(2))
        try:
            self._connection.create(_collection("Secret", cluster.namespace), secret(cluster, token=token, key=key))
        except AlreadyExistsError:
            return  # of an earlier start: its jobs are encrypted with that key

    def _wait_leader(self, cluster: KubernetesCluster, report: Callable[[str], None]) -> Leader:
        deadline_s, said = time.monotonic() + START_SECONDS, ""
        while True:
            pods = self._pods(cluster.name, cluster.namespace, COORDINATOR)
            found = self.leader(cluster.name, cluster.namespace)
            if found is not None and any(_address(pod) in found.url for pod in pods if _address(pod)):
                return found
            trouble = coordinator_trouble(pods) or self._refused_pods(cluster)
            line = trouble or "coordinators start"
            if line != said:
                said = line
                report(line)
            if time.monotonic() > deadline_s:
                raise ExternalError(
                    f"no coordinator of {cluster.name} leads after {START_SECONDS:g} s: {trouble or 'see its log'}",
                    remedy=f"kubectl -n {cluster.namespace} logs deployment/{cluster.name}",
                )
            time.sleep(LOOK_SECONDS)

    def _refused_pods(self, cluster: KubernetesCluster) -> str:
        """Why the Deployment has no pods, such as a quota or the namespace's Pod Security level."""
        return refused_pods(self._connection.get(_collection("Deployment", cluster.namespace), cluster.name))

    def _wait_gone(self, name: str, namespace: str) -> None:
        """Waits until the Deployment is gone, which is the last of what it owns to go, and every pod of a worker."""
        deadline_s = time.monotonic() + STOP_SECONDS
        while left := self._left(name, namespace):
            if time.monotonic() > deadline_s:
                raise ExternalError(
                    f"of the cluster {name} there is still {', '.join(left)} after {STOP_SECONDS:g} s",
                    remedy="the node of a pod may be lost: kubectl get nodes",
                )
            time.sleep(LOOK_SECONDS)

    def _left(self, name: str, namespace: str) -> list[str]:
        pods = [*self._pods(name, namespace, COORDINATOR), *self._pods(name, namespace, WORKER)]
        deployed = [] if self._deployment(name, namespace) is None else [f"Deployment {name}"]
        return [*deployed, *(f"pod {metadata_of(each).name}" for each in pods)]

    def _deployment(self, name: str, namespace: str) -> Document | None:
        try:
            return self._connection.get(_collection("Deployment", namespace), name)
        except NotFoundError:
            return None

    def _pods(self, name: str, namespace: str, component: str) -> tuple[dict[str, Any], ...]:
        listed = self._connection.list(Collection("v1", "pods", namespace), labels=selector_of(name, component))
        return listed.items

    def _delete(self, kind: str, name: str, namespace: str, *, propagation: Any = None) -> bool:
        try:
            self._connection.delete(_collection(kind, namespace), name, propagation=propagation)
        except NotFoundError:
            return False
        return True

    def _delete_protections(self, name: str, namespace: str, *, keep: Container[tuple[str, str]]) -> None:
        """Deletes budget and policies that an earlier description has asked for. keep: kinds and names that stay.

        An account without the right to delete a kind leaves those: it needs no right for what its clusters do not use.
        """
        for kind, named in protection_names(name):
            if (kind, named) not in keep:
                with contextlib.suppress(ForbiddenError):
                    self._delete(kind, named, namespace)


def _reference(cluster: KubernetesCluster, deployed: Document) -> dict[str, Any]:
    return dict(Owner("apps/v1", "Deployment", cluster.name, metadata_of(deployed).uid).reference())


def _collection(kind: str, namespace: str) -> Collection:
    api, plural = _PLURALS[kind]
    return Collection(api, plural, namespace)


def _leases(namespace: str) -> Collection:
    return Collection(API, PLURAL, namespace)


def _phase(pod: Mapping[str, Any]) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def _address(pod: Mapping[str, Any]) -> str:
    return str(pod.get("status", {}).get("podIP", ""))
