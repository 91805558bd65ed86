"""Where objects stand in the API: version, plural, namespace and name make a path."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote


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
