"""The object that a Lease belongs to, and with which it is deleted.

A candidate names it when it creates the Lease. So also one that is created while the cluster is being deleted goes: the
garbage collector deletes what belongs to an object that is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.core.errors import ExternalError, UserError
from headrace.kubernetes.collection import Collection
from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Document, metadata_of, text_at

OWNER_VARIABLE = "HEADRACE_LEASE_OWNER"


@dataclass(frozen=True, slots=True)
class OwnerOfLease:
    """An object in the Lease's namespace, such as apps/v1, deployments, flights."""

    api_version: str
    plural: str
    name: str

    @property
    def text(self) -> str:
        """As in the environment: apps/v1/deployments/flights."""
        return f"{self.api_version}/{self.plural}/{self.name}"

    @staticmethod
    def of(environment: Mapping[str, str]) -> OwnerOfLease | None:
        """The owner that the environment names; None: it names none. Raises UserError."""
        text = environment.get(OWNER_VARIABLE)
        if not text:
            return None
        collection, _, name = text.rpartition("/")
        api_version, _, plural = collection.rpartition("/")
        if not api_version or not plural or not name:
            raise UserError(
                f"{OWNER_VARIABLE}={text} names no object",
                remedy="write API-VERSION/PLURAL/NAME: apps/v1/deployments/x",
            )
        return OwnerOfLease(api_version, plural, name)

    def own(self, connection: Connection, namespace: str, lease: Document, *, timeout_s: float) -> Document:
        """The Lease as one that belongs to the object as it is now. Raises ExternalError if that is gone or going."""
        owner = connection.get(Collection(self.api_version, self.plural, namespace), self.name, timeout_s=timeout_s)
        metadata = metadata_of(owner)
        if metadata.is_deleted:
            raise ExternalError(f"{self.plural} {self.name}, to which the Lease belongs, is being deleted")
        reference: Document = {
            "apiVersion": self.api_version,
            "kind": text_at(owner, "kind") or "",
            "name": self.name,
            "uid": metadata.uid,
        }
        own = lease["metadata"]
        return lease | {"metadata": {**(own if isinstance(own, dict) else {}), "ownerReferences": [reference]}}
