"""The operator's access to clusters: their objects in Kubernetes, and the leader's REST API."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.client.cluster_secret import credentials_secret, in_secrets
from headrace.client.http import Client
from headrace.core.errors import ExternalError, UnreachableError
from headrace.deployment.kubernetes.cluster_spec import ClusterSpec, KubernetesCluster
from headrace.deployment.kubernetes.deployer import ClusterView, Deployer, refused_pods
from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Document, metadata_of, text_at
from headrace.kubernetes.ownership import Claim
from headrace.kubernetes_operator.decisions.job_view import ClusterFacts
from headrace.kubernetes_operator.resources.kinds import API, GROUP, JOB, Kind
from headrace.leadership.elector import Leader
from headrace.tls.files import tls_authority


@dataclass(frozen=True, slots=True)
class Owner:
    """A resource that owns others, which are deleted with it. created: when it was created."""

    kind: Kind
    name: str
    uid: str
    created: str

    @staticmethod
    def of(kind: Kind, document: Document) -> Owner:
        """The object in a document."""
        metadata = metadata_of(document)
        return Owner(kind, metadata.name, metadata.uid, text_at(document, "metadata", "creationTimestamp") or "")

    def reference(self) -> Mapping[str, object]:
        """As an owner reference."""
        named = {"apiVersion": API, "kind": self.kind.name, "name": self.name, "uid": self.uid}
        return {**named, "controller": True, "blockOwnerDeletion": False}

    def claim(self, cluster: str) -> Claim:
        """The condition under which objects belong to a cluster of this resource.

        A killed operator leaves objects without an owner, which the next operator adopts. A job adopts no object that
        is older than itself: `headrace cluster start` has created that one.
        """
        return Claim(cluster, self.uid, self.created if self.kind == JOB else "")


LOOK_SECONDS, ANSWER_SECONDS = 5.0, 20.0
"""Limits of a coordinator's answer: to a read, and to a change. A read must not delay a round for long, because the
round records users' requests."""
MANAGER = "headrace-operator"
"""The owner of what the operator adds to objects of a cluster."""
APPLIED = f"{GROUP}/applied"
"""Annotation of a Deployment: digest of the spec that the operator has applied."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A cluster as Kubernetes shows it: for decisions, and in detail."""

    facts: ClusterFacts
    view: ClusterView


class ClusterAccess:
    """The clusters of one API server. Thread-safe. Raises ExternalError."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._deployer = Deployer(connection)

    def look(self, name: str, namespace: str, *, owner: Owner | None = None) -> Seen:
        """Observes a cluster. owner: the resource that should own it; a cluster of another owner counts as absent."""
        claim = None if owner is None else owner.claim(name)
        view = self._deployer.view(name, namespace, claim)
        if view.other_owner:
            trouble = f"Deployment {name} belongs to {view.other_owner}: one of them needs another name"
            has_begun = claim is not None and self._deployer.has_begun(name, namespace, claim)
            return Seen(ClusterFacts(is_there=has_begun, deployed=False, leads=False, trouble=trouble), view)
        deployed = view.deployed
        has_begun = deployed is None and claim is not None and self._deployer.has_begun(name, namespace, claim)
        facts = ClusterFacts(
            is_there=view.exists or view.leader is not None or has_begun,
            deployed=deployed is not None and not metadata_of(deployed).is_deleted,
            leads=view.leader is not None,
            applied="" if deployed is None else metadata_of(deployed).annotations.get(APPLIED, ""),
            trouble=view.trouble or ("" if deployed is None else refused_pods(deployed)),
            renewal_due=view.exists and self._deployer.is_certificate_due(name, namespace),
        )
        return Seen(facts, view)

    def apply(self, name: str, namespace: str, spec: ClusterSpec, *, digest: str, owner: Owner) -> None:
        """Applies a cluster that belongs to `owner`, and notes the digest last: an apply that was interrupted is
        repeated. Raises UserError for a spec that the API server refuses, and if an object of the cluster's names is
        another one's."""
        claim = owner.claim(name)
        self._deployer.apply(KubernetesCluster(name, namespace, spec), claim)
        document = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "annotations": {APPLIED: digest},
                "ownerReferences": [dict(owner.reference())],
            },
        }
        self._deployer.note(document, namespace, claim=claim, manager=MANAGER)

    def delete(self, name: str, namespace: str, *, owner: Owner) -> None:
        """Deletes a cluster, and waits until its pods are gone. Its Secret stays."""
        self._deployer.stop(name, namespace, with_secret=False, claim=owner.claim(name))

    @contextmanager
    def client(self, name: str, namespace: str, leader: Leader | None = None) -> Iterator[Client]:
        """A client of the coordinator that leads. leader: that `look` has found, for a client that only
        reads.

        It does not wait for another leader, because the next round tries again. Raises UnreachableError if none leads.
        """
        answer_s = ANSWER_SECONDS if leader is None else LOOK_SECONDS
        leader = leader or self._deployer.leader(name, namespace)
        if leader is None:
            raise UnreachableError(f"no coordinator leads the cluster {name}")
        access = in_secrets(self._connection, name, namespace)
        if access.token is None:
            raise ExternalError(
                f"there is no token of the cluster {name}",
                remedy=f"its Secret {credentials_secret(name)} in namespace {namespace} has it under `token`",
                retry=True,
            )
        authority = access.authority or tls_authority(os.environ)
        with Client(leader.url, access.token, authority=authority, answer_s=answer_s) as client:
            yield client
