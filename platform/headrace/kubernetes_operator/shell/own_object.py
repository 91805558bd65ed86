"""The custom resource that a world is about, as it was read last."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Document
from headrace.kubernetes_operator.decisions.announcements import Announcement
from headrace.kubernetes_operator.shell.event_log import EventLog
from headrace.kubernetes_operator.shell.going_namespace import is_going
from headrace.kubernetes_operator.shell.resource_store import Key, ResourceStore, identity_of
from headrace.spec.model import FileModel


class OwnObject:
    """One object: what is written about it goes to the version that was read. Raises ConflictError if the API server
    has another one."""

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
        found = self._store.find(self.key)
        if found is None:
            return None
        self.document = found
        identity = identity_of(found)
        if identity.is_deleted and identity.is_kept and is_going(self._connection, self.key.namespace):
            self.set_kept(is_kept=False)
            return None
        return found

    def record(self, status: FileModel, said: Iterable[Announcement], now: str) -> None:
        """Writes the status, then the events about what has changed. now: as the API server writes times."""
        self._store.write_status(self.key, self.document, status)
        for each in said:
            self._events.write(self.key.kind, self.document, each, now)

    def set_kept(self, *, is_kept: bool) -> None:
        """Adds or removes the finalizer."""
        self._store.set_kept(self.key, self.document, is_kept=is_kept)
