"""A namespace that is being deleted: what is in it goes with it, and no resource of ours may hold it up.

Kubernetes deletes the pods of such a namespace first, then everything else at once, the rights of an operator among it.
So no job is stopped there at a cut, and no cluster deleted step by step: finalizers are removed.

    the operator is elsewhere   each resource is released once it is deleted (`OwnObject.read`)
    the operator is in it       it is among the first to go, and releases all at its end (`release_own_namespace`)
"""

from __future__ import annotations

import contextlib
import logging

from headrace.kubernetes.collection import Collection
from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import metadata_of
from headrace.kubernetes.refusals import ConflictError, ForbiddenError, NotFoundError
from headrace.kubernetes_operator.resources.kinds import KINDS
from headrace.kubernetes_operator.shell.resource_store import Key, ResourceStore, collection_of, identity_of

LOG = logging.getLogger("headrace.operator")
_CONFLICTS_MAX = 4
"""How often a resource is read again because somebody has changed it."""
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
