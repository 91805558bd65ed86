"""Objects of somebody else, under the names that a cluster of headrace would give to its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from headrace.kubernetes.connection import AlreadyExistsError, Connection, NotFoundError
from headrace.kubernetes.documents import Collection, Document

KINDS: Mapping[str, tuple[str, str]] = {
    "ConfigMap": ("v1", "configmaps"),
    "Service": ("v1", "services"),
    "Secret": ("v1", "secrets"),
    "Deployment": ("apps/v1", "deployments"),
    "PodDisruptionBudget": ("policy/v1", "poddisruptionbudgets"),
    "NetworkPolicy": ("networking.k8s.io/v1", "networkpolicies"),
    "Lease": ("coordination.k8s.io/v1", "leases"),
}
_WITH_STATUS = {"Deployment", "PodDisruptionBudget"}
"""Kinds of which Kubernetes' own controllers write the status, and what follows from that."""
ENDINGS = ("", "-control", "-headrace", "-tls", "-authority", "-work", "-workers")
MANAGER = "postgres-operator"
_LABELS = {"app.kubernetes.io/managed-by": MANAGER, "app": "postgres"}
_POD = {"metadata": {"labels": {"app": "postgres"}}, "spec": {"containers": [{"name": "db", "image": "postgres:17"}]}}
_SPECS: Mapping[str, Mapping[str, Any]] = {
    "ConfigMap": {"data": {"pipeline.yaml": "name: theirs", "workers.json": "{}"}},
    "Service": {"spec": {"selector": {"app": "postgres"}, "ports": [{"port": 5432}]}},
    "Secret": {"stringData": {"token": "theirs", "key": "theirs", "password": "theirs"}},
    "Deployment": {"spec": {"replicas": 0, "selector": {"matchLabels": {"app": "postgres"}}, "template": _POD}},
    "PodDisruptionBudget": {"spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "postgres"}}}},
    "NetworkPolicy": {"spec": {"podSelector": {"matchLabels": {"app": "postgres"}}, "policyTypes": ["Ingress"]}},
    "Lease": {"spec": {"holderIdentity": "postgres-0", "leaseDurationSeconds": 1}},
}


def colliding(name: str) -> list[tuple[str, str]]:
    """Kind and name of objects that collide with those of a cluster: 49."""
    return [(kind, f"{name}{ending}") for kind in KINDS for ending in ENDINGS]


class ForeignObjects:
    """Those that were made in one namespace."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self._connection = connection
        self._namespace = namespace
        self._made: dict[tuple[str, str], Mapping[str, Any]] = {}

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._made)

    def make(self, kind: str, name: str) -> bool:
        """Creates one; returns False if the name is taken."""
        document = {"kind": kind, "metadata": {"name": name, "labels": dict(_LABELS)}, **_SPECS[kind]}
        try:
            made = self._connection.create(self.collection(kind), document, manager=MANAGER)
        except AlreadyExistsError:
            return False
        self._made[kind, name] = essence(made)
        return True

    def replace(self, kind: str, name: str) -> None:
        """Deletes what has the name, whosever it is, and creates one there."""
        with contextlib.suppress(NotFoundError):
            self._connection.delete(self.collection(kind), name, propagation="Background", grace_s=0)
        assert self.make(kind, name), f"{kind} {name} is not deleted at once"

    def delete(self, kind: str, name: str) -> None:
        """Deletes one as its owner."""
        self._connection.delete(self.collection(kind), name)
        del self._made[kind, name]

    def require_untouched(self) -> None:
        """Each is there, as it was made."""
        for (kind, name), before in self._made.items():
            assert essence(self.read(kind, name)) == before, f"{kind} {name}"

    def others(self) -> list[tuple[str, str]]:
        """Kind and name of what is there besides, of our kinds."""
        found = [
            (kind, str(each["metadata"]["name"]))  # type: ignore[index, call-overload]
            for kind in KINDS
            for each in self._connection.list(self.collection(kind)).items
        ]
        return [each for each in found if each not in self._made and each[1] != "kube-root-ca.crt"]

    def read(self, kind: str, name: str) -> Document:
        """The object of that name, whoever has made it."""
        return self._connection.get(self.collection(kind), name)

    def collection(self, kind: str) -> Collection:
        """All of a kind in the namespace."""
        api, plural = KINDS[kind]
        return Collection(api, plural, self._namespace)


def essence(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """An object as far as only its owner writes it: for most kinds all of it, down to the version, which any write
    changes."""
    if document.get("kind") not in _WITH_STATUS:
        return document
    metadata = {name: each for name, each in document["metadata"].items() if name != "resourceVersion"}
    entries = [each for each in metadata.pop("managedFields", []) if each.get("subresource") != "status"]
    # the controller of Deployments numbers them
    numbered = "deployment.kubernetes.io/revision"
    annotations = {name: each for name, each in metadata.pop("annotations", {}).items() if name != numbered}
    rest = {name: each for name, each in document.items() if name not in {"status", "metadata"}}
    managers = sorted(each["manager"] for each in entries)
    return {**rest, "metadata": metadata, "annotations": annotations, "managers": managers}
