"""Paths of objects in the API."""

from __future__ import annotations

import pytest

from headrace.kubernetes.collection import Collection


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
