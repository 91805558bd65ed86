"""Owner references to our resources."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.kubernetes.documents import Document, metadata_of
from headrace.operator.resources.kinds import API, Kind


def owner_reference(kind: Kind, document: Document) -> Mapping[str, object]:
    """The object as the owner of others, which are deleted with it."""
    metadata = metadata_of(document)
    return {
        "apiVersion": API,
        "kind": kind.name,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
