"""Fields of documents with any content, and paths of collections."""

from __future__ import annotations

import pytest

from headrace.kubernetes.documents import Collection, Document, documents_at, metadata_of, number_at, text_at, value_at

POD: Document = {
    "metadata": {
        "name": "w",
        "namespace": "orders",
        "uid": "u",
        "resourceVersion": "7",
        "labels": {"app": "orders"},
        "deletionTimestamp": "2026-11-26T10:00:00Z",
    },
    "spec": {"restarts": 3, "ready": True, "containers": [{"name": "a"}, "b"]},
}


def test_metadata_has_what_every_object_has() -> None:
    metadata = metadata_of(POD)
    assert (metadata.name, metadata.namespace, metadata.uid, metadata.resource_version) == ("w", "orders", "u", "7")
    assert (metadata.labels, metadata.annotations, metadata.is_deleted) == ({"app": "orders"}, {}, True)
    assert metadata_of({}).resource_version == ""


def test_a_field_of_another_type_is_missing() -> None:
    assert text_at(POD, "metadata", "name", "more") is None
    assert text_at(POD, "spec", "restarts") is None
    assert number_at(POD, "spec", "restarts") == 3
    assert number_at(POD, "spec", "ready") is None
    assert value_at(POD, "status") is None
    assert documents_at(POD, "spec", "containers") == ({"name": "a"},)
    assert documents_at(POD, "metadata") == ()


@pytest.mark.parametrize(
    ("collection", "name", "subresource", "path"),
    [
        (Collection("v1", "pods", "orders"), None, None, "/api/v1/namespaces/orders/pods"),
        (Collection("v1", "pods", "orders"), "w-1", "log", "/api/v1/namespaces/orders/pods/w-1/log"),
        (Collection("v1", "pods"), None, None, "/api/v1/pods"),
        (Collection("v1", "nodes"), "n", None, "/api/v1/nodes/n"),
        (Collection("apps/v1", "deployments", "o"), "d", "status", "/apis/apps/v1/namespaces/o/deployments/d/status"),
        (Collection("v1", "pods", "orders"), "../nodes", None, "/api/v1/namespaces/orders/pods/..%2Fnodes"),
    ],
)
def test_a_path_names_version_namespace_kind_and_name(
    collection: Collection, name: str | None, subresource: str | None, path: str
) -> None:
    assert collection.path(name, subresource) == path


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_no_request_for_one_object_reaches_its_collection(name: str) -> None:
    with pytest.raises(AssertionError, match="names no object"):
        Collection("v1", "pods", "orders").path(name)


def test_a_role_names_the_group_of_an_api() -> None:
    assert Collection("coordination.k8s.io/v1", "leases").group == "coordination.k8s.io"
    assert Collection("v1", "pods").group == ""
