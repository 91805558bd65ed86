"""Reads custom resources, writes their statuses and finalizers."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from headrace.core.config import FileModel
from headrace.core.errors import ExternalError
from headrace.kubernetes.connection import Connection, NotFoundError
from headrace.kubernetes.documents import Collection, Document, Json, metadata_of, number_at, text_at, value_at
from headrace.kubernetes_operator.decisions.job_view import Identity
from headrace.kubernetes_operator.resources.kinds import API, FINALIZER, Kind
from headrace.spec.wording import file_keys, read_model

_Model = TypeVar("_Model", bound=FileModel)


@dataclass(frozen=True, slots=True)
class Key:
    """An object of a kind."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.name} {self.namespace}/{self.name}"


class ResourceStore:
    """The custom resources of one API server. Thread-safe. Raises ExternalError."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, key: Key) -> Document | None:
        """The object as it is now; None: there is none."""
        try:
            return self._connection.get(collection_of(key.kind, key.namespace), key.name)
        except NotFoundError:
            return None

    def write_status(self, key: Key, document: Document, status: FileModel) -> None:
        """Replaces the status of the version in `document`. Raises ConflictError if the object has another one."""
        dumped = status.model_dump(mode="json", by_alias=True)
        # fields that are null are removed: a patch keeps what it does not name
        change = {"metadata": {"resourceVersion": metadata_of(document).resource_version}, "status": dumped}
        self._connection.patch(collection_of(key.kind, key.namespace), key.name, change, subresource="status")

    def set_kept(self, key: Key, document: Document, *, is_kept: bool) -> None:
        """Adds or removes the finalizer of the version in `document`. Raises ConflictError."""
        others = [each for each in _finalizers(document) if each != FINALIZER]
        metadata = {
            "resourceVersion": metadata_of(document).resource_version,
            "finalizers": [*others, FINALIZER] if is_kept else others,
        }
        with contextlib.suppress(NotFoundError):
            self._connection.patch(collection_of(key.kind, key.namespace), key.name, {"metadata": metadata})


def collection_of(kind: Kind, namespace: str) -> Collection:
    """The objects of a kind in a namespace."""
    return Collection(API, kind.plural, namespace)


def identity_of(document: Document) -> Identity:
    """The object that a document describes."""
    metadata = metadata_of(document)
    return Identity(
        name=metadata.name,
        namespace=metadata.namespace or "",
        uid=metadata.uid,
        generation=number_at(document, "metadata", "generation") or 0,
        is_deleted=metadata.is_deleted,
        is_kept=FINALIZER in _finalizers(document),
    )


def status_of(document: Document, model: type[_Model]) -> _Model:
    """The status in a document, without fields that a later version of the operator may have written. Raises
    ExternalError if it is not a status of this operator."""
    found = value_at(document, "status")
    known = file_keys(model)
    data: Mapping[str, Json] = found if isinstance(found, dict) else {}
    try:
        return read_model(model, {name: value for name, value in data.items() if name in known})
    except ValueError as error:
        raise ExternalError(
            f"the status of {metadata_of(document).name} was not written by this operator: {error}",
            remedy="kubectl edit --subresource=status removes it",
        ) from error


def created_at(document: Document) -> str:
    """When it was created."""
    return text_at(document, "metadata", "creationTimestamp") or ""


def _finalizers(document: Document) -> list[str]:
    found = value_at(document, "metadata", "finalizers")
    return [str(each) for each in found] if isinstance(found, list) else []
