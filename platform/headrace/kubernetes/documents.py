"""JSON documents of the API, and the fields that all objects have. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import quote

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Document: TypeAlias = dict[str, Json]
"""An object as the API server sends it."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata of an object.

    uid               names this object, and none that is created under the same name later
    resource_version  changes with each write to the object
    is_deleted        whether its deletion has begun
    """

    name: str
    namespace: str | None
    uid: str
    resource_version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    is_deleted: bool


@dataclass(frozen=True, slots=True)
class Listing:
    """The objects of a collection at one version of it, from which a watch may continue."""

    items: tuple[Document, ...]
    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A change of an object.

    kind      ADDED, MODIFIED, DELETED; BOOKMARK: no change, the document has nothing but a version to continue from
    document  the object after it; before it if it was deleted
    """

    kind: str
    document: Document


def metadata_of(document: Mapping[str, Json]) -> Metadata:
    """The metadata of an object."""
    return Metadata(
        name=text_at(document, "metadata", "name") or "",
        namespace=text_at(document, "metadata", "namespace"),
        uid=text_at(document, "metadata", "uid") or "",
        resource_version=text_at(document, "metadata", "resourceVersion") or "",
        labels=_texts(value_at(document, "metadata", "labels")),
        annotations=_texts(value_at(document, "metadata", "annotations")),
        is_deleted=value_at(document, "metadata", "deletionTimestamp") is not None,
    )


def value_at(document: Json | Mapping[str, Json], *keys: str) -> Json:
    """The value below these keys; None if one of them is missing."""
    value: Json | Mapping[str, Json] = document
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return dict(value) if isinstance(value, Mapping) else value


def text_at(document: Json | Mapping[str, Json], *keys: str) -> str | None:
    """The text below these keys; None if it is missing or no text."""
    value = value_at(document, *keys)
    return value if isinstance(value, str) else None


def number_at(document: Json | Mapping[str, Json], *keys: str) -> int | None:
    """The whole number below these keys; None if it is missing or none."""
    value = value_at(document, *keys)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def documents_at(document: Json | Mapping[str, Json], *keys: str) -> tuple[Document, ...]:
    """The objects of the list below these keys; empty if it is missing."""
    value = value_at(document, *keys)
    return tuple(each for each in value if isinstance(each, dict)) if isinstance(value, list) else ()


def _texts(value: Json) -> Mapping[str, str]:
    return {key: str(each) for key, each in value.items()} if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class Collection:
    """Objects of one kind, such as `Collection("v1", "pods", "orders")`.

    api        version of its API: `v1`, `apps/v1`, `coordination.k8s.io/v1`
    plural     its name in URLs and Roles: `pods`
    namespace  None: kinds without a namespace; for lists and watches also objects of all namespaces
    """

    api: str
    plural: str
    namespace: str | None = None

    @property
    def group(self) -> str:
        """The group of its API, as a Role names it; empty for `v1`."""
        return self.api.rpartition("/")[0]

    def path(self, name: str | None = None, subresource: str | None = None) -> str:
        """The path in URLs: of the collection, of one object, or of a part of that (`log`, `status`)."""
        parts = ["apis" if self.group else "api", *self.api.split("/")]
        if self.namespace is not None:
            parts += ["namespaces", _segment(self.namespace)]
        parts.append(self.plural)
        if name is not None:
            parts.append(_segment(name))
        if subresource is not None:
            parts.append(subresource)
        return "/" + "/".join(parts)

    def describe(self, name: str | None = None) -> str:
        """For messages: `pods/worker-1 in namespace orders`."""
        named = self.plural if name is None else f"{self.plural}/{name}"
        return named if self.namespace is None else f"{named} in namespace {self.namespace}"


def _segment(name: str) -> str:
    # the path of an object without a name is the path of its collection: a delete would end all of them
    assert name not in {"", ".", ".."}, f"{name!r} names no object"
    return quote(name, safe="")
