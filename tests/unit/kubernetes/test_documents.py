"""Fields of documents, whatever a server or a user has put there."""

from __future__ import annotations

from headrace.kubernetes.documents import Document, documents_at, metadata_of, number_at, text_at, value_at

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
