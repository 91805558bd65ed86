"""The Lease of an election, as candidates read and write it, and the object that owns it.

kind: Lease                         of coordination.k8s.io/v1
metadata:
  labels:
    app.kubernetes.io/managed-by: headrace   a Lease of others is not written to
  annotations:
    headrace/leader: '{"url": ..}'  address of the coordinator that leads, or of the one that led before
spec:
  holderIdentity: coordinator-0-5f2c..   the candidate that was elected; empty: it has released the Lease
  leaseDurationSeconds: 10          how long it may be silent
  renewTime: 2026-11-26T10:00:00.000000Z   changes with each renewal; nobody compares it with a clock
  acquireTime, leaseTransitions     for readers: since when, and how many changes of the holder
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.core.errors import ExternalError, UserError
from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Collection, Document, Json, metadata_of, number_at, text_at, value_at
from headrace.kubernetes.ownership import MANAGED_BY, MANAGER, is_ours, owner_of
from headrace.leadership.elector import Leader

API, PLURAL, KIND = "coordination.k8s.io/v1", "leases", "Lease"
LEADER = "headrace/leader"


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A Lease at one version.

    holder       empty: nobody
    duration_ms  None: the Lease states none
    beat         changes with each renewal, and with nothing else
    published    the leader's address as annotated
    document     what the server sent; a write of it succeeds if nobody has written since
    """

    holder: str
    duration_ms: int | None
    beat: bytes
    published: str | None
    document: Document

    @staticmethod
    def of(document: Document) -> LeaseRecord:
        """The record in a document."""
        spec = value_at(document, "spec")
        seconds = number_at(spec, "leaseDurationSeconds")
        return LeaseRecord(
            holder=text_at(spec, "holderIdentity") or "",
            duration_ms=None if seconds is None else seconds * 1_000,
            beat=json.dumps(spec, sort_keys=True).encode(),
            published=metadata_of(document).annotations.get(LEADER),
            document=document,
        )

    def leader(self, place: str) -> Leader | None:
        """The published address; None: there is none. place: named in errors. Raises ExternalError."""
        return None if self.published is None else Leader.decoded(self.published.encode(), place)

    def held_by(self, candidate: str, lease_ms: int, now: str, leader: Leader | None = None) -> Document:
        """The Lease that this candidate writes to be elected, or to renew. now: of its wall clock, for readers; leader:
        its address; None: the one that is published stays, so that clients find the last leader meanwhile."""
        spec = value_at(self.document, "spec")
        changed: dict[str, Json] = dict(spec) if isinstance(spec, dict) else {}
        if self.holder != candidate:
            changed |= {"acquireTime": now, "leaseTransitions": (number_at(spec, "leaseTransitions") or 0) + 1}
        changed |= {"holderIdentity": candidate, "leaseDurationSeconds": _seconds(lease_ms), "renewTime": now}
        document = self.document | {"spec": changed}
        if leader is not None:
            document["metadata"] = _annotated(value_at(self.document, "metadata"), leader)
        return document

    def released(self, now: str) -> Document:
        """The Lease that its holder writes to give up."""
        spec = value_at(self.document, "spec")
        kept: dict[str, Json] = dict(spec) if isinstance(spec, dict) else {}
        return self.document | {"spec": kept | {"holderIdentity": "", "renewTime": now}}


def new_lease(name: str, candidate: str, lease_ms: int, now: str, leader: Leader | None = None) -> Document:
    """The Lease that a candidate creates if there is none."""
    metadata: dict[str, Json] = {"name": name, "labels": {MANAGED_BY: MANAGER}}
    return {
        "apiVersion": API,
        "kind": KIND,
        "metadata": metadata if leader is None else _annotated(metadata, leader),
        "spec": {
            "holderIdentity": candidate,
            "leaseDurationSeconds": _seconds(lease_ms),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0,
        },
    }


def other_owner_of_lease(document: Document) -> str:
    """Names the owner of a Lease that no candidate of Headrace has written; empty: it is of an election of Headrace."""
    if is_ours(document) or LEADER in metadata_of(document).annotations:
        return ""
    holder = text_at(document, "spec", "holderIdentity")
    return f"{owner_of(document)}, held by {holder}" if holder else owner_of(document)


def _annotated(metadata: Json, leader: Leader) -> Json:
    kept: dict[str, Json] = dict(metadata) if isinstance(metadata, dict) else {}
    annotations = value_at(kept, "annotations")
    others: dict[str, Json] = dict(annotations) if isinstance(annotations, dict) else {}
    return kept | {"annotations": others | {LEADER: leader.encoded().decode()}}


def _seconds(lease_ms: int) -> int:
    # whole seconds are what the API has: others never wait for less than the holder lives by
    return -(-lease_ms // 1_000)


OWNER_VARIABLE = "HEADRACE_LEASE_OWNER"


@dataclass(frozen=True, slots=True)
class OwnerOfLease:
    """An object in the Lease's namespace, such as apps/v1, deployments, flights. The Lease is deleted with it.

    A candidate names the owner when it creates the Lease. So a Lease that is created while the cluster is being deleted
    is deleted too: the garbage collector deletes objects whose owner is gone.
    """

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
        """The Lease with this owner. Raises ExternalError if the owner is gone or is being deleted."""
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
