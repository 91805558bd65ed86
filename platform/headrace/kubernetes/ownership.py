"""Whose an object is: the one check before anything of Kubernetes is changed or deleted. Pure.

A name is not ownership: an object is ours if it has our labels, and belongs to no controller but ours. Of others only
names are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.kubernetes.documents import Document, Json, documents_at, metadata_of, text_at, value_at

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "headrace"
"""The value of that label, and the manager of fields, of all that we write."""
CLUSTER_LABEL = "headrace.dev/cluster"
_RELEASE = "meta.helm.sh/release-name"


@dataclass(frozen=True, slots=True)
class Claim:
    """The condition under which an object belongs to a cluster.

    cluster     whose label the object must have
    controller  uid of the resource that may control it, besides nobody; "": none may; None: any may
    not_before  a Deployment that nobody controls must not be older: it is another one's cluster; empty: of any age
    """

    cluster: str
    controller: str | None = ""
    not_before: str = ""

    def other_owner(self, document: Document) -> str:
        """Names the owner of an object that is not ours; empty: it is ours."""
        if text_at(document, "kind") == "Lease":
            return "" if self._is_own_lease(document) else owner_of(document)
        labels = metadata_of(document).labels
        if labels.get(MANAGED_BY) != MANAGER or labels.get(CLUSTER_LABEL) != self.cluster:
            return owner_of(document)
        controllers = _controllers(document)
        if controllers:
            uids = {text_at(each, "uid") for each in controllers}
            return "" if self.controller is None or self.controller in uids else owner_of(document)
        # times of the API server have one form
        created = text_at(document, "metadata", "creationTimestamp") or ""
        is_older = text_at(document, "kind") == "Deployment" and created < self.not_before
        return f"an earlier cluster {self.cluster}" if is_older else ""

    def _is_own_lease(self, document: Document) -> bool:
        """Candidates write it, for the cluster whose Deployment it belongs to; Headrace has other elections, too."""
        is_of_cluster = any(
            text_at(each, "kind") == "Deployment" and text_at(each, "name") == self.cluster
            for each in documents_at(document, "metadata", "ownerReferences")
        )
        return is_of_cluster and is_ours(document)


def owner_of(document: Document) -> str:
    """The name of an object's owner, as far as its metadata names one."""
    metadata = metadata_of(document)
    for each in _controllers(document):
        return f"{text_at(each, 'kind')} {text_at(each, 'name')}"
    if release := metadata.annotations.get(_RELEASE):
        return f"release {release} of Helm"
    manager = metadata.labels.get(MANAGED_BY)
    if manager == MANAGER and (cluster := metadata.labels.get(CLUSTER_LABEL)):
        return f"cluster {cluster} of headrace"
    return manager or next(iter(_writers(document)), "") or "somebody who has left no name"


def is_ours(document: Document) -> bool:
    """Whether a process of Headrace has made an object, of whatever cluster. One of an earlier version may have no
    label, but the API server notes the programs that have written to it."""
    return metadata_of(document).labels.get(MANAGED_BY) == MANAGER or MANAGER in _writers(document)


def belongs_to_deployment(document: Document) -> bool:
    """Whether an object is deleted with a Deployment."""
    references = documents_at(document, "metadata", "ownerReferences")
    return any(text_at(each, "kind") == "Deployment" for each in references)


def labelled(document: Document) -> Document:
    """The object with the label of what is ours."""
    value = value_at(document, "metadata")
    metadata: dict[str, Json] = dict(value) if isinstance(value, dict) else {}
    labels = value_at(metadata, "labels")
    others: dict[str, Json] = dict(labels) if isinstance(labels, dict) else {}
    return document | {"metadata": metadata | {"labels": others | {MANAGED_BY: MANAGER}}}


def _controllers(document: Document) -> list[Mapping[str, Json]]:
    references = documents_at(document, "metadata", "ownerReferences")
    return [each for each in references if value_at(each, "controller") is True]


def _writers(document: Document) -> list[str]:
    entries = documents_at(document, "metadata", "managedFields")
    return [name for each in entries if (name := text_at(each, "manager"))]
