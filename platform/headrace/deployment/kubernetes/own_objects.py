"""The objects of one cluster on an API server. Deployer, operator and commands make every change and deletion here.

An object is read first, and must belong to the cluster (`kubernetes.ownership`); the write names the uid or version
that was read. A missing object is created, which fails if another client creates it first. So no object of another
owner is ever changed, whatever its name and whenever it appears.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from headrace.core.errors import ExternalError, UserError
from headrace.kubernetes.connection import AlreadyExistsError, ConflictError, Connection, NotFoundError, Propagation
from headrace.kubernetes.documents import Collection, Document, documents_at, metadata_of, text_at
from headrace.kubernetes.ownership import MANAGER, Claim

CREATOR = "headrace-create"
"""The manager of the fields of an object that was just created, until `MANAGER` is."""
TRIES_MAX = 5
"""Tries of a write that conflicts with other writes."""
_PLURALS = {
    "ConfigMap": ("v1", "configmaps"),
    "Service": ("v1", "services"),
    "Secret": ("v1", "secrets"),
    "Deployment": ("apps/v1", "deployments"),
    "PodDisruptionBudget": ("policy/v1", "poddisruptionbudgets"),
    "NetworkPolicy": ("networking.k8s.io/v1", "networkpolicies"),
    "Lease": ("coordination.k8s.io/v1", "leases"),
}


class OwnObjects:
    """Thread-safe. Raises ExternalError, and UserError for an object of another owner."""

    def __init__(self, connection: Connection, namespace: str, claim: Claim) -> None:
        self._connection = connection
        self._namespace = namespace
        self._claim = claim

    def find(self, kind: str, name: str) -> Document | None:
        """The object; None: there is none, or it has another owner."""
        existing = self._get(kind, name)
        return None if existing is None or self._claim.other_owner(existing) else existing

    def other_owner(self, kind: str, name: str) -> str:
        """Names the owner of an object that is not ours; empty: it is ours, or not there."""
        existing = self._get(kind, name)
        return "" if existing is None else self._claim.other_owner(existing)

    def require_free(self, objects: Iterable[tuple[str, str]]) -> None:
        """Raises UserError if one of them exists with another owner. objects: kinds and names."""
        for kind, name in objects:
            if (existing := self._get(kind, name)) is not None:
                self._require_own(kind, existing)

    def create(self, document: Mapping[str, Any]) -> Document:
        """Creates an object, unless it is there; returns the one that is there."""
        kind, name = document["kind"], document["metadata"]["name"]
        for _ in range(TRIES_MAX):
            with contextlib.suppress(AlreadyExistsError):
                return self._connection.create(self._collection(kind), document)
            if (existing := self._get(kind, name)) is not None:
                self._require_own(kind, existing)
                return existing
        raise _contended(kind, name)

    def apply(self, document: Mapping[str, Any], *, manager: str = MANAGER) -> Document:
        """Creates an object, or gives it the fields of the document, which `manager` owns then."""
        kind, name = document["kind"], document["metadata"]["name"]
        collection = self._collection(kind)
        for _ in range(TRIES_MAX):
            existing = self._get(kind, name)
            # another one may come first, or go
            with contextlib.suppress(AlreadyExistsError, ConflictError, NotFoundError):
                if existing is None:
                    return self._taken_over(self._connection.create(collection, document, manager=CREATOR), kind)
                self._require_own(kind, existing)
                existing = self._taken_over(existing, kind)
                with_uid = {**document, "metadata": {**document["metadata"], "uid": metadata_of(existing).uid}}
                return self._connection.apply(collection, name, with_uid, manager=manager)
        raise _contended(kind, name)

    def patch(self, kind: str, name: str, change: Mapping[str, Any]) -> None:
        """Merges a change into an object that is there and ours; else does nothing."""
        for _ in range(TRIES_MAX):
            if (existing := self.find(kind, name)) is None:
                return
            # by the version: a merge of another uid is invalid, not a conflict
            version = {"resourceVersion": metadata_of(existing).resource_version}
            with contextlib.suppress(ConflictError, NotFoundError):
                with_version = {**change, "metadata": {**change.get("metadata", {}), **version}}
                self._connection.patch(self._collection(kind), name, with_version)
                return
        raise _contended(kind, name)

    def delete(self, kind: str, name: str, *, propagation: Propagation | None = None) -> bool:
        """Deletes an object that is ours. Returns whether there was one."""
        existing = self.find(kind, name)
        if existing is None:
            return False
        try:
            uid = metadata_of(existing).uid
            self._connection.delete(self._collection(kind), name, uid=uid, propagation=propagation)
        except (NotFoundError, ConflictError):
            # gone since, and perhaps another one has its name
            return False
        return True

    def _taken_over(self, document: Document, kind: str) -> Document:
        """The object with the fields of its creation as those that were applied: the next apply removes what it does
        not name any more. An apply that creates would be one request, but it changes what another one has created."""
        entries = documents_at(document, "metadata", "managedFields")
        if all(text_at(each, "manager") != CREATOR for each in entries):
            return document
        applied = [
            {**each, "manager": MANAGER, "operation": "Apply"} if text_at(each, "manager") == CREATOR else each
            for each in entries
        ]
        metadata = metadata_of(document)
        change = {"resourceVersion": metadata.resource_version, "uid": metadata.uid, "managedFields": applied}
        return self._connection.patch(self._collection(kind), metadata.name, {"metadata": change})

    def _require_own(self, kind: str, existing: Document) -> None:
        if owner := self._claim.other_owner(existing):
            name = metadata_of(existing).name
            raise UserError(
                f"{kind} {name} in namespace {self._namespace} is not of the cluster {self._claim.cluster}: "
                f"it belongs to {owner}",
                remedy="give the cluster another name; what Headrace has not made it neither changes nor deletes",
            )

    def _get(self, kind: str, name: str) -> Document | None:
        try:
            return self._connection.get(self._collection(kind), name)
        except NotFoundError:
            return None

    def _collection(self, kind: str) -> Collection:
        api, plural = _PLURALS[kind]
        return Collection(api, plural, self._namespace)


def _contended(kind: str, name: str) -> ExternalError:
    return ExternalError(f"{kind} {name} is written to or deleted all the time by another program", retry=True)
