"""The custom resource of a reconciler as it was last read: its status, events and finalizer, and their release.

Kubernetes deletes the pods of a namespace that is being deleted first, then everything else at once, including the
rights of an operator. So no job is stopped there at a cut, and no cluster is deleted step by step: the finalizers are
removed, because they would block the deletion.

    the operator is elsewhere   each resource is released once it is deleted (`OwnObject.read`)
    the operator is in it       it is among the first to go, and releases all at its end (`release_own_namespace`)
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Iterable, Mapping

from headrace.core.config import FileModel
from headrace.core.errors import HeadraceError
from headrace.kubernetes.connection import AlreadyExistsError, ConflictError, Connection, ForbiddenError, NotFoundError
from headrace.kubernetes.documents import Collection, Document, metadata_of, number_at
from headrace.kubernetes_operator.resources.conditions import Announcement
from headrace.kubernetes_operator.resources.kinds import API, KINDS, Kind
from headrace.kubernetes_operator.shell.resource_store import Key, ResourceStore, collection_of, identity_of

LOG = logging.getLogger("headrace.operator")
_MESSAGE_MAX = 1_000
"""Characters; the API server accepts 1,024."""
_DIGEST_CHARACTERS = 12


class EventLog:
    """Writes events of Kubernetes. Equal events are one object with a count. Best effort: an event that cannot be
    written is lost. Thread-safe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def write(self, kind: Kind, document: Document, announcement: Announcement, now: str) -> None:
        """Writes one event about an object. now: as the API server writes times."""
        metadata = metadata_of(document)
        collection = Collection("v1", "events", metadata.namespace)
        event = _event(kind, document, announcement, now)
        name = str(event["metadata"]["name"])  # type: ignore[index]
        LOG.info(
            "%s %s/%s: %s: %s", kind.name, metadata.namespace, metadata.name, announcement.reason, announcement.message
        )
        try:
            try:
                self._connection.create(collection, event)
            except AlreadyExistsError:
                count = number_at(self._connection.get(collection, name), "count") or 1
                self._connection.patch(collection, name, {"count": count + 1, "lastTimestamp": now})
        except HeadraceError as error:
            LOG.warning("an event about %s could not be written: %s", metadata.name, error)


def _event(kind: Kind, document: Document, announcement: Announcement, now: str) -> Mapping[str, object]:
    metadata = metadata_of(document)
    text = f"{announcement.type} {announcement.reason} {announcement.message}"
    digest = hashlib.sha256(f"{metadata.uid} {text}".encode()).hexdigest()[:_DIGEST_CHARACTERS]
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
        "type": announcement.type,
        "reason": announcement.reason,
        "message": announcement.message[:_MESSAGE_MAX],
        "source": {"component": "headrace-operator"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


_CONFLICTS_MAX = 4
"""Reads of a resource that another client changes meanwhile."""
_NAMESPACES = Collection("v1", "namespaces")


def is_going(connection: Connection, namespace: str) -> bool:
    """Whether a namespace is being deleted, or is gone. False without the right to read it. Raises ExternalError."""
    try:
        return metadata_of(connection.get(_NAMESPACES, namespace)).is_deleted
    except NotFoundError:
        return True
    except ForbiddenError:
        return False


def release_own_namespace(connection: Connection) -> None:
    """Removes the finalizers of all resources in the namespace of this operator, if that is going. Raises
    ExternalError."""
    namespace = connection.namespace
    if not is_going(connection, namespace):
        return
    store = ResourceStore(connection)
    for kind in KINDS:
        for document in connection.list(collection_of(kind, namespace)).items:
            _release(store, Key(kind, namespace, metadata_of(document).name))
    LOG.info("the namespace %s is being deleted: its resources are released", namespace)


def _release(store: ResourceStore, key: Key) -> None:
    for _ in range(_CONFLICTS_MAX):
        document = store.find(key)
        if document is None or not identity_of(document).is_kept:
            return
        with contextlib.suppress(ConflictError):
            store.set_kept(key, document, is_kept=False)
            return


class OwnObject:
    """One object. Writes name the version that was read, and raise ConflictError if the API server has another one."""

    def __init__(self, key: Key, connection: Connection) -> None:
        self.key = key
        self._connection = connection
        self._store = ResourceStore(connection)
        self._events = EventLog(connection)
        self.document: Document = {}
        """The version that was read last."""

    def read(self) -> Document | None:
        """Reads the object; None: it is gone, or is released because its namespace goes. Raises ConflictError,
        ExternalError."""
        document = self._store.find(self.key)
        if document is None:
            return None
        self.document = document
        identity = identity_of(document)
        if identity.is_deleted and identity.is_kept and is_going(self._connection, self.key.namespace):
            self.set_kept(is_kept=False)
            return None
        return document

    def record(self, status: FileModel, announcements: Iterable[Announcement], now: str) -> None:
        """Writes the status, then the events about what has changed. now: as the API server writes times."""
        self._store.write_status(self.key, self.document, status)
        for each in announcements:
            self._events.write(self.key.kind, self.document, each, now)

    def set_kept(self, *, is_kept: bool) -> None:
        """Adds or removes the finalizer."""
        self._store.set_kept(self.key, self.document, is_kept=is_kept)
