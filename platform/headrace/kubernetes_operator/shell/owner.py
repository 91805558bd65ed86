"""Our resources as owners of other objects. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.kubernetes.documents import Document, metadata_of, text_at
from headrace.kubernetes.ownership import Claim
from headrace.kubernetes_operator.resources.kinds import API, JOB, Kind


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
        """What is taken for a cluster of this resource.

        An operator that is killed leaves objects without an owner, which the next one takes over. A job takes over none
        that is older than itself: that is a cluster which `headrace cluster start` has made.
        """
        return Claim(cluster, self.uid, self.created if self.kind == JOB else "")
