"""Events of Kubernetes about our resources. Best effort: one that could not be written is lost."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping

from headrace.core.errors import HeadraceError
from headrace.kubernetes.collection import Collection
from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Document, metadata_of, number_at
from headrace.kubernetes.refusals import AlreadyExistsError
from headrace.kubernetes_operator.decisions.announcements import Announcement
from headrace.kubernetes_operator.resources.kinds import API, Kind

LOG = logging.getLogger("headrace.operator")
_MESSAGE_MAX = 1_000
"""Characters that the API server takes: 1,024."""
_DIGEST_CHARACTERS = 12


class EventLog:
    """Writes events. Equal ones are one object that counts. Thread-safe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def write(self, kind: Kind, document: Document, said: Announcement, now: str) -> None:
        """Writes one event about an object. now: as the API server writes times."""
        metadata = metadata_of(document)
        collection = Collection("v1", "events", metadata.namespace)
        event = _event(kind, document, said, now)
        name = str(event["metadata"]["name"])  # type: ignore[index]
        LOG.info("%s %s/%s: %s: %s", kind.name, metadata.namespace, metadata.name, said.reason, said.message)
        try:
            try:
                self._connection.create(collection, event)
            except AlreadyExistsError:
                count = number_at(self._connection.get(collection, name), "count") or 1
                self._connection.patch(collection, name, {"count": count + 1, "lastTimestamp": now})
        except HeadraceError as error:
            LOG.warning("an event about %s could not be written: %s", metadata.name, error)


def _event(kind: Kind, document: Document, said: Announcement, now: str) -> Mapping[str, object]:
    metadata = metadata_of(document)
    told = f"{said.type} {said.reason} {said.message}"
    digest = hashlib.sha256(f"{metadata.uid} {told}".encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{metadata.name}.{digest}", "namespace": metadata.namespace},
        "involvedObject": {
            "apiVersion": API,
            "kind": kind.name,
            "name": metadata.name,
            "namespace": metadata.namespace,
            "uid": metadata.uid,
        },
        "type": said.type,
        "reason": said.reason,
        "message": said.message[:_MESSAGE_MAX],
        "source": {"component": "headrace-operator"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
