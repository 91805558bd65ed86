"""Starts, inspects and stops a cluster on Kubernetes. Blocking; every step may be repeated.

    start   ConfigMap, Services, budget, policies, work; the Secrets, unless they are there; the Deployment, which then
            owns the others; budget and policies that are no longer asked for are deleted
    stop    the Deployment with its pods and all that it owns, then the Lease; Secrets stay, unless they are to go

Objects of another owner are neither changed nor deleted, whatever their names (`own_objects`).

Secrets outlive the cluster: without the key nobody can read the jobs of the ledger, and a cluster of that name that is
started again goes on with them. A cluster that serves one job or application is not started again: its Secrets go.
"""

from __future__ import annotations

import base64
import contextlib
import secrets
import time
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.client.cluster_secret import credentials_secret, server_name, tls_secret
from headrace.core.errors import ExternalError, UserError
from headrace.deployment.kubernetes.cluster_spec import KubernetesCluster
from headrace.deployment.kubernetes.manifests import (
    config_name,
    control_service,
    deployment,
    owned_documents,
    secret,
    work_secret,
)
from headrace.deployment.kubernetes.own_objects import OwnObjects
from headrace.deployment.kubernetes.protections import protection_names
from headrace.kubernetes.connection import Connection, ForbiddenError, NotFoundError
from headrace.kubernetes.documents import Collection, Document, documents_at, metadata_of, text_at, value_at
from headrace.kubernetes.ownership import Claim, belongs_to_deployment
from headrace.leadership.elector import Leader
from headrace.leadership.lease_record import API, PLURAL, LeaseRecord
from headrace.resources.kubernetes.worker_pod import (
    COORDINATOR,
    WORKER,
    Owner,
    end_of,
    labels_of,
    pending_reason,
    selector_of,
)
from headrace.tls.issuing import KeyPair, is_due, issued, new_authority

START_SECONDS, STOP_SECONDS = 300.0, 180.0
LOOK_SECONDS = 0.5
_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster as Kubernetes shows it.

    deployed      its Deployment; None: it has none
    other_owner   whose the Deployment of its name is, if it is not the cluster's; else empty
    coordinators  pod -> phase; so are workers
    trouble       why a coordinator does not run; empty: no reason is known
    """

    deployed: Document | None
    other_owner: str
    coordinators: Mapping[str, str]
    workers: Mapping[str, str]
    leader: Leader | None
    trouble: str

    @property
    def exists(self) -> bool:
        """Whether the cluster has a Deployment."""
        return self.deployed is not None


class Deployer:
    """The clusters of one API server. claim: of the cluster's objects; None: they belong to no resource."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def start(self, cluster: KubernetesCluster, report: Callable[[str], None] = lambda _line: None) -> Leader:
        """Applies the cluster's objects, and waits until a coordinator leads. report: receives lines of progress.

        Raises UserError if an object of its names has another owner. Raises ExternalError if the API server rejects an
        object, and with the pods' reason if none leads in time. The objects stay then, so that a user can inspect and
        remove the cause.
        """
        objects = self._objects(Claim(cluster.name), cluster.namespace)
        before = objects.find("Deployment", cluster.name)
        if before is not None and metadata_of(before).is_deleted:
            # changes of an object that is being deleted are lost
            report("the cluster before it is being deleted")
            self._wait_gone(objects, cluster.name, cluster.namespace)
        self.apply(cluster)
        return self._wait_leader(cluster, report)

    def apply(self, cluster: KubernetesCluster, claim: Claim | None = None) -> None:
        """Applies the cluster's objects, and does not wait. After a deletion of a cluster of that name the caller waits
        until it is gone, because changes of an object that is being deleted are lost.

        Raises UserError before it applies anything if an object of its names has another owner. Raises ExternalError.
        """
        objects = self._objects(claim or Claim(cluster.name), cluster.namespace)
        certificates = Certificates(objects, cluster.name)
        self._require_names(cluster, objects, certificates)
        before = objects.find("Deployment", cluster.name)
        # before the pods that mount it, and again once it can belong to the Deployment
        _apply_owned(cluster, objects, before)
        _make_secret(cluster, objects)
        if cluster.spec.tls:
            certificates.ensure(cluster, _certificate_names(cluster.name, cluster.namespace))
        deployed = objects.apply(deployment(cluster))
        if before is None:
            _apply_owned(cluster, objects, deployed)
        if cluster.work is not None:
            owner = _reference(cluster, deployed)
            objects.patch("Secret", credentials_secret(cluster.name), {"metadata": {"ownerReferences": [owner]}})
            certificates.own(owner)
        applied = {(each["kind"], each["metadata"]["name"]) for each in owned_documents(cluster)}
        _delete_protections(objects, cluster.name, keep=applied)

    def stop(self, name: str, namespace: str, *, with_secret: bool, claim: Claim | None = None) -> bool:
        """Deletes the cluster's objects, and waits until its pods are gone. Returns whether there was a cluster.

        Jobs are suspended as at any end of a coordinator. Raises UserError for the cluster of another resource, and if
        nothing of the cluster exists and the Deployment of its name has another owner. Raises ExternalError.
        """
        objects = self._objects(claim or Claim(name), namespace)
        if self._objects(_whosever(name), namespace).find("Deployment", name) is not None:
            # all that has its labels belongs to that resource, too
            objects.require_free([("Deployment", name)])
        existed = objects.delete("Deployment", name, propagation="Foreground")
        self._wait_gone(objects, name, namespace)
        # of a start that was interrupted: nothing owned them yet
        for kind, named in (("ConfigMap", config_name(name)), ("Service", name), ("Service", control_service(name))):
            existed = objects.delete(kind, named) or existed
        # an operator's clusters have none, and it needs no right for it
        with contextlib.suppress(ForbiddenError):
            existed = objects.delete("Secret", work_secret(name)) or existed
        _delete_protections(objects, name, keep=())
        objects.delete("Lease", name)
        if with_secret:
            # an earlier version has called it by the cluster's name
            for each in (credentials_secret(name), name):
                existed = objects.delete("Secret", each) or existed
            Certificates(objects, name).delete()
        if not existed:
            objects.require_free([("Deployment", name)])
        return existed

    def view(self, name: str, namespace: str, claim: Claim | None = None) -> ClusterView:
        """Returns what there is of a cluster. claim: None: whatever resource it belongs to."""
        objects = self._objects(claim or _whosever(name), namespace)
        deployed = objects.find("Deployment", name)
        coordinators = self._pods(name, namespace, COORDINATOR)
        return ClusterView(
            deployed,
            "" if deployed is not None else objects.other_owner("Deployment", name),
            {metadata_of(each).name: _phase(each) for each in coordinators},
            {metadata_of(each).name: _phase(each) for each in self._pods(name, namespace, WORKER)},
            self.leader(name, namespace),
            coordinator_trouble(coordinators),
        )

    def has_begun(self, name: str, namespace: str, claim: Claim) -> bool:
        """Whether a start was interrupted before there was a Deployment."""
        begun = self._objects(claim, namespace).find("ConfigMap", config_name(name))
        return begun is not None and not belongs_to_deployment(begun)

    def note(self, document: Mapping[str, Any], namespace: str, *, claim: Claim, manager: str) -> None:
        """Adds fields to an object of the cluster, which `manager` owns."""
        self._objects(claim, namespace).apply(document, manager=manager)

    def leader(self, name: str, namespace: str) -> Leader | None:
        """The leader as it has published its address in the Lease."""
        try:
            record = LeaseRecord.of(self._connection.get(_leases(namespace), name))
        except NotFoundError:
            return None
        return record.leader(f"Lease {name}")

    def is_certificate_due(self, name: str, namespace: str) -> bool:
        """Whether the next apply would issue the certificate of a cluster anew. False for a cluster without one."""
        objects = self._objects(Claim(name), namespace)
        return Certificates(objects, name).is_due(_certificate_names(name, namespace))

    # ---- inside --------------------------------------------------------------------------------------------------

    def _objects(self, claim: Claim, namespace: str) -> OwnObjects:
        return OwnObjects(self._connection, namespace, claim)

    def _require_names(self, cluster: KubernetesCluster, objects: OwnObjects, certificates: Certificates) -> None:
        """Raises UserError if an object of the cluster's names has another owner: nothing is applied then."""
        documents = (deployment(cluster), *owned_documents(cluster), secret(cluster, token="", key=""))
        names = [(each["kind"], each["metadata"]["name"]) for each in documents]
        objects.require_free([*names, ("Lease", cluster.name)])
        if cluster.spec.tls:
            certificates.require_usable(self._connection, cluster.namespace)

    def _wait_leader(self, cluster: KubernetesCluster, report: Callable[[str], None]) -> Leader:
        deadline_s, printed = time.monotonic() + START_SECONDS, ""
        while True:
            pods = self._pods(cluster.name, cluster.namespace, COORDINATOR)
            leader = self.leader(cluster.name, cluster.namespace)
            if leader is not None and any(_address(pod) in leader.url for pod in pods if _address(pod)):
                return leader
            trouble = coordinator_trouble(pods) or self._refused_pods(cluster)
            line = trouble or "coordinators start"
            if line != printed:
                printed = line
                report(line)
            if time.monotonic() > deadline_s:
                raise ExternalError(
                    f"no coordinator of {cluster.name} leads after {START_SECONDS:g} s: {trouble or 'see its log'}",
                    remedy=f"kubectl -n {cluster.namespace} logs deployment/{cluster.name}",
                )
            time.sleep(LOOK_SECONDS)

    def _refused_pods(self, cluster: KubernetesCluster) -> str:
        """Why the Deployment has no pods, such as a quota or the namespace's Pod Security level."""
        return refused_pods(self._connection.get(Collection("apps/v1", "deployments", cluster.namespace), cluster.name))

    def _wait_gone(self, objects: OwnObjects, name: str, namespace: str) -> None:
        """Waits until the Deployment is gone, which is the last of what it owns to go, and every pod of a worker."""
        deadline_s = time.monotonic() + STOP_SECONDS
        while left := self._left(objects, name, namespace):
            if time.monotonic() > deadline_s:
                raise ExternalError(
                    f"of the cluster {name} there is still {', '.join(left)} after {STOP_SECONDS:g} s",
                    remedy="the node of a pod may be lost: kubectl get nodes",
                )
            time.sleep(LOOK_SECONDS)

    def _left(self, objects: OwnObjects, name: str, namespace: str) -> list[str]:
        pods = [*self._pods(name, namespace, COORDINATOR), *self._pods(name, namespace, WORKER)]
        deployed = [] if objects.find("Deployment", name) is None else [f"Deployment {name}"]
        return [*deployed, *(f"pod {metadata_of(each).name}" for each in pods)]

    def _pods(self, name: str, namespace: str, component: str) -> tuple[dict[str, Any], ...]:
        listed = self._connection.list(Collection("v1", "pods", namespace), labels=selector_of(name, component))
        return listed.items


def _whosever(name: str) -> Claim:
    """The claim of a cluster, whatever resource it belongs to."""
    return Claim(name, controller=None)


def _apply_owned(cluster: KubernetesCluster, objects: OwnObjects, deployed: Document | None) -> None:
    """Applies what belongs to the Deployment; None: there is none yet."""
    for document in owned_documents(cluster):
        metadata = document["metadata"]
        if deployed is not None:
            metadata = {**metadata, "ownerReferences": [_reference(cluster, deployed)]}
        objects.apply({**document, "metadata": metadata})


def _make_secret(cluster: KubernetesCluster, objects: OwnObjects) -> None:
    """Makes the cluster's Secret, unless it is there: its jobs are encrypted with that key. An earlier version has
    called it by the cluster's name; that one stays, for pods that mount it."""
    if objects.find("Secret", credentials_secret(cluster.name)) is not None:
        return
    earlier = objects.find("Secret", cluster.name)
    token, key = (
        secrets.token_urlsafe(_SECRET_BYTES) if earlier is None else _held(earlier, field) for field in ("token", "key")
    )
    objects.create(secret(cluster, token=token, key=key))


def _held(earlier: Document, field: str) -> str:
    return base64.b64decode(text_at(earlier, "data", field) or "").decode().strip()


def _delete_protections(objects: OwnObjects, name: str, *, keep: Container[tuple[str, str]]) -> None:
    """Deletes budget and policies that an earlier description has asked for. keep: kinds and names that stay.

    An account without the right to a kind leaves those: it needs no right for what its clusters do not use.
    """
    for kind, named in protection_names(name):
        if (kind, named) not in keep:
            with contextlib.suppress(ForbiddenError):
                objects.delete(kind, named)


def _certificate_names(name: str, namespace: str) -> tuple[str, ...]:
    return certificate_names(name, namespace, control_service(name))


def _reference(cluster: KubernetesCluster, deployed: Document) -> dict[str, Any]:
    return dict(Owner("apps/v1", "Deployment", cluster.name, metadata_of(deployed).uid).reference())


def _leases(namespace: str) -> Collection:
    return Collection(API, PLURAL, namespace)


def _phase(pod: Mapping[str, Any]) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def _address(pod: Mapping[str, Any]) -> str:
    return str(pod.get("status", {}).get("podIP", ""))


def coordinator_trouble(pods: Iterable[Mapping[str, Any]]) -> str:
    """The first reason that a pod gives, with its name; empty: none gives one."""
    for pod in pods:
        reason = _trouble(pod.get("status", {}))
        if reason:
            return f"pod {pod['metadata']['name']}: {reason}"
    return ""


def refused_pods(deployment: Document) -> str:
    """Why a Deployment has no pods, such as a quota or the Pod Security level of its namespace; empty: no reason."""
    for each in documents_at(deployment, "status", "conditions"):
        if value_at(each, "type") == "ReplicaFailure" and value_at(each, "status") == "True":
            return text_at(each, "message") or text_at(each, "reason") or ""
    return ""


def _trouble(status: Mapping[str, Any]) -> str:
    for container in status.get("containerStatuses", []):
        state = container.get("state", {})
        # a container that ends is started again after a pause that grows; only its last end has the reason
        last = end_of(container) or end_of({"state": container.get("lastState", {})})
        if last is not None and "running" not in state:
            return f"it has ended {container.get('restartCount', 0) + ('terminated' in state)} times: {last}"
    return pending_reason(status)


# ---- the certificate -------------------------------------------------------------------------------------------------
# The certificate of a cluster on Kubernetes, in Secrets. Blocking; may be repeated.
#
#     Secret NAME-authority   ca.crt, ca.key: made once; no pod has it
#     Secret NAME-tls         tls.crt, tls.key, ca.crt: mounted by all pods; issued again 30 days before its end
#
# Pods read the files of a Secret that is replaced within a minute or so, and use them while jobs run. A Secret NAME-tls
# of another program, such as cert-manager, is used unchanged.

_FILES = ("tls.crt", "tls.key", "ca.crt")


def authority_secret(name: str) -> str:
    """The name of the Secret with the authority of a cluster."""
    return f"{name}-authority"


def certificate_names(name: str, namespace: str, control_service: str) -> tuple[str, ...]:
    """The names in the certificate of a cluster: its services, and this host for a port-forward."""
    return (server_name(name, namespace), f"{control_service}.{namespace}.svc", "localhost", "127.0.0.1")


class Certificates:
    """The certificates of clusters in one namespace. objects: of the cluster that all calls are about."""

    def __init__(self, objects: OwnObjects, cluster: str) -> None:
        self._objects = objects
        self._cluster = cluster

    def require_usable(self, connection: Connection, namespace: str) -> None:
        """Raises UserError for Secrets of another owner that cannot be used: a certificate without one of its files, or
        an authority."""
        secret = tls_secret(self._cluster)
        owner = self._objects.other_owner("Secret", secret)
        if not owner:
            self._objects.require_free([("Secret", authority_secret(self._cluster))])
            return
        found = connection.get(Collection("v1", "secrets", namespace), secret)
        missing = [name for name in _FILES if text_at(found, "data", name) is None]
        if missing:
            raise UserError(
                f"Secret {secret} belongs to {owner}, and has no {', '.join(missing)}",
                remedy="add what is missing, for it to be the cluster's certificate, or give the cluster another name",
            )

    def ensure(self, cluster: KubernetesCluster, names: tuple[str, ...]) -> None:
        """Issues the cluster's certificate, unless a valid one with all names exists, or one of another owner."""
        now, name = datetime.now(UTC), tls_secret(cluster.name)
        found = self._objects.find("Secret", name)
        if self._objects.other_owner("Secret", name) or (found is not None and not _is_due(found, names, now)):
            return
        authority = self._authority(cluster, now)
        pair = issued(authority, names, now)
        data = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.certificate}
        secret = _secret(cluster, name, "kubernetes.io/tls", data)
        if found is None:
            # one that comes first is another client's, by the same authority
            self._objects.create(secret)
        else:
            self._objects.patch("Secret", name, {"data": secret["data"]})

    def is_due(self, names: tuple[str, ...]) -> bool:
        """Whether `ensure` would issue the certificate anew. False for a cluster without one."""
        found = self._objects.find("Secret", tls_secret(self._cluster))
        return found is not None and _is_due(found, names, datetime.now(UTC))

    def own(self, owner: Mapping[str, Any]) -> None:
        """Has the Secrets deleted with an object. owner: a reference to it."""
        for name in (tls_secret(self._cluster), authority_secret(self._cluster)):
            self._objects.patch("Secret", name, {"metadata": {"ownerReferences": [dict(owner)]}})

    def delete(self) -> None:
        """Deletes the Secrets, except for those of another owner."""
        for name in (tls_secret(self._cluster), authority_secret(self._cluster)):
            self._objects.delete("Secret", name)

    def _authority(self, cluster: KubernetesCluster, now: datetime) -> KeyPair:
        made = new_authority(f"{cluster.name}.{cluster.namespace}", now)
        data = {"ca.crt": made.certificate, "ca.key": made.key}
        found = self._objects.create(_secret(cluster, authority_secret(cluster.name), "Opaque", data))
        return KeyPair(_text(found, "ca.crt") or "", _text(found, "ca.key") or "")


def _is_due(secret: Document, names: tuple[str, ...], now: datetime) -> bool:
    held = _text(secret, "tls.crt")
    return held is None or is_due(held, names, now)


def _text(secret: Document, field: str) -> str | None:
    found = text_at(secret, "data", field)
    return None if found is None else base64.b64decode(found).decode()


def _secret(cluster: KubernetesCluster, name: str, kind: str, data: Mapping[str, str]) -> dict[str, Any]:
    encoded = {field: base64.b64encode(text.encode()).decode() for field, text in data.items()}
    metadata = {"name": name, "labels": dict(labels_of(cluster.name, COORDINATOR))}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": encoded}
