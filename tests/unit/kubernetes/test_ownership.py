"""Whose an object is, and what is said of one of somebody else."""

from __future__ import annotations

import pytest

from headrace.kubernetes.documents import Document, Json, metadata_of, value_at
from headrace.kubernetes.ownership import CLUSTER_LABEL, MANAGED_BY, MANAGER, Claim, is_ours, labelled

OURS: dict[str, Json] = {MANAGED_BY: MANAGER, CLUSTER_LABEL: "flights"}


def document(labels: dict[str, Json], **metadata: Json) -> Document:
    return {"kind": "Service", "metadata": {"name": "flights", "labels": labels, **metadata}}


def controlled(uid: str) -> list[Json]:
    return [{"kind": "HeadraceJob", "name": "flights", "uid": uid, "controller": True}]


@pytest.mark.parametrize(
    ("found", "owner"),
    [
        (document(OURS), ""),
        (document({}), "somebody who has left no name"),
        (document({MANAGED_BY: MANAGER}), "headrace"),
        (document({CLUSTER_LABEL: "flights"}, managedFields=[{"manager": "kubectl"}]), "kubectl"),
        (document({MANAGED_BY: "argocd", CLUSTER_LABEL: "flights"}), "argocd"),
        (document({**OURS, CLUSTER_LABEL: "other"}), "cluster other of headrace"),
        (document({MANAGED_BY: "Helm"}, annotations={"meta.helm.sh/release-name": "db"}), "release db of Helm"),
        (document({}, ownerReferences=controlled("other")), "HeadraceJob flights"),
        (document(OURS, ownerReferences=controlled("other")), "HeadraceJob flights"),
        (document(OURS, ownerReferences=controlled("own")), ""),
        (document(OURS, ownerReferences=[{"kind": "Deployment", "name": "flights", "uid": "d"}]), ""),
    ],
)
def test_labels_and_controller_decide_and_not_the_name(found: Document, owner: str) -> None:
    assert Claim("flights", "own").other_owner(found) == owner


def test_a_claim_of_no_resource_takes_nothing_that_has_a_controller_and_a_look_takes_any() -> None:
    found = document(OURS, ownerReferences=controlled("own"))
    assert Claim("flights").other_owner(found) == "HeadraceJob flights"
    assert not Claim("flights", controller=None).other_owner(found)
    assert Claim("flights", controller=None).other_owner(document({}))


def test_what_we_have_written_is_known_by_the_label_or_by_the_writer() -> None:
    found = document({"team": "x"}, managedFields=[{"manager": "kubectl"}, {"manager": MANAGER}])
    assert is_ours(found)
    assert not is_ours(document({}, managedFields=[{"manager": "kubectl"}]))
    changed = labelled(found)
    assert metadata_of(changed).labels == {"team": "x", MANAGED_BY: MANAGER}
    assert value_at(changed, "metadata", "managedFields") == value_at(found, "metadata", "managedFields")


def test_a_lease_is_of_the_cluster_whose_deployment_it_belongs_to() -> None:
    def lease(labels: dict[str, Json], *owners: str) -> Document:
        references: list[Json] = [{"kind": "Deployment", "name": each, "uid": each} for each in owners]
        return {"kind": "Lease", "metadata": {"name": "flights", "labels": labels, "ownerReferences": references}}

    claim, label = Claim("flights"), dict[str, Json]({MANAGED_BY: MANAGER})
    assert claim.other_owner(lease(label, "flights")) == ""
    # of another election of ours, such as the operator's; of another cluster; of another program
    assert claim.other_owner(lease(label)) == "headrace"
    assert claim.other_owner(lease(label, "other")) == "headrace"
    assert claim.other_owner(lease({}, "flights")) == "somebody who has left no name"
