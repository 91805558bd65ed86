"""Whose a Deployment is."""

from __future__ import annotations

import pytest

from headrace.kubernetes.documents import Document, Json
from headrace.kubernetes_operator.resources.kinds import CLUSTER, JOB, Kind
from headrace.kubernetes_operator.shell.owner import Owner

BEFORE, NOW, AFTER = (f"2026-01-01T00:00:0{second}Z" for second in (1, 2, 3))


def deployment(created: str, owner: Owner | None = None) -> Document:
    references: Json = [] if owner is None else [{"uid": owner.uid, "controller": True}]
    return {"metadata": {"name": "flights", "creationTimestamp": created, "ownerReferences": references}}


@pytest.mark.parametrize("kind", [CLUSTER, JOB])
def test_one_with_a_controller_is_the_controllers(kind: Kind) -> None:
    own, other = Owner(kind, "flights", "own", NOW), Owner(kind, "flights", "other", NOW)
    for created in (BEFORE, AFTER):
        assert not own.is_other(deployment(created, own))
        assert own.is_other(deployment(created, other))


@pytest.mark.parametrize(
    ("kind", "created", "is_other"),
    [(CLUSTER, BEFORE, False), (JOB, BEFORE, True), (JOB, NOW, False), (JOB, AFTER, False)],
)
def test_one_without_a_controller_is_what_a_killed_operator_left_unless_it_is_older_than_the_job(
    kind: Kind, created: str, *, is_other: bool
) -> None:
    assert Owner(kind, "flights", "own", NOW).is_other(deployment(created)) is is_other
