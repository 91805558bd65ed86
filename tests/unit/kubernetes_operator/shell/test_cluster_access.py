"""The owner of a Deployment."""

from __future__ import annotations

import pytest

from headrace.kubernetes.documents import Document, Json
from headrace.kubernetes_operator.resources.kinds import CLUSTER, JOB, Kind
from headrace.kubernetes_operator.shell.cluster_access import Owner
from headrace.resources.kubernetes.worker_pod import COORDINATOR, labels_of

BEFORE, NOW, AFTER = (f"2026-01-01T00:00:0{second}Z" for second in (1, 2, 3))


def deployment(created: str, owner: Owner | None = None) -> Document:
    references: Json = [] if owner is None else [{"uid": owner.uid, "controller": True}]
    metadata: Json = {
        "name": "flights",
        "creationTimestamp": created,
        "ownerReferences": references,
        "labels": dict(labels_of("flights", COORDINATOR)),
    }
    return {"kind": "Deployment", "metadata": metadata}


def is_other(owner: Owner, document: Document) -> bool:
    return bool(owner.claim("flights").other_owner(document))


@pytest.mark.parametrize("kind", [CLUSTER, JOB])
def test_one_with_a_controller_is_the_controllers(kind: Kind) -> None:
    own, other = Owner(kind, "flights", "own", NOW), Owner(kind, "flights", "other", NOW)
    for created in (BEFORE, AFTER):
        assert not is_other(own, deployment(created, own))
        assert is_other(own, deployment(created, other))


@pytest.mark.parametrize(
    ("kind", "created", "is_others"),
    [(CLUSTER, BEFORE, False), (JOB, BEFORE, True), (JOB, NOW, False), (JOB, AFTER, False)],
)
def test_one_without_a_controller_is_what_a_killed_operator_left_unless_it_is_older_than_the_job(
    kind: Kind, created: str, *, is_others: bool
) -> None:
    assert is_other(Owner(kind, "flights", "own", NOW), deployment(created)) is is_others
