"""The connection against a real API server: what it answers to writes, watches, and requests without a right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from headrace.core.errors import UnreachableError
from headrace.kubernetes.access import PodAccess
from headrace.kubernetes.connection import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    Connection,
    ForbiddenError,
    NotFoundError,
    RejectedError,
    open_connection,
)
from headrace.kubernetes.documents import Collection, Document, metadata_of, value_at
from support.leadership.lease_api import LeaseApi, lease_api
from support.processes.running import wait_until

MAPS = Collection("v1", "configmaps", "default")
PODS = Collection("v1", "pods", "default")
SHORT_S = 1.0


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LeaseApi]:
    with lease_api(tmp_path_factory.mktemp("k")) as started:
        yield started


@pytest.fixture
def connection(api: LeaseApi) -> Iterator[Connection]:
    opened = open_connection(api.environment)
    yield opened
    opened.close()


def _map(name: str, **data: str) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": dict(data)}


def test_writes_succeed_once_and_know_what_they_replace(connection: Connection) -> None:
    first = connection.create(MAPS, _map("written", a="1"))
    with pytest.raises(AlreadyExistsError):
        connection.create(MAPS, _map("written"))
    second = connection.replace(MAPS, "written", first | {"data": {"a": "2"}})
    with pytest.raises(ConflictError):
        connection.replace(MAPS, "written", first | {"data": {"a": "3"}})
    patched = connection.patch(MAPS, "written", {"data": {"a": None, "b": "4"}})
    assert value_at(patched, "data") == {"b": "4"}
    stale = {"resourceVersion": metadata_of(second).resource_version}
    with pytest.raises(ConflictError):
        connection.patch(MAPS, "written", {"metadata": stale, "data": {"b": "5"}})
    assert connection.get(MAPS, "written") == patched
    with pytest.raises(ConflictError):
        connection.delete(MAPS, "written", uid="of another one")
    with pytest.raises(ConflictError):
        connection.delete(MAPS, "written", resource_version=stale["resourceVersion"])
    connection.delete(MAPS, "written", uid=metadata_of(first).uid, propagation="Background")
    with pytest.raises(NotFoundError):
        connection.get(MAPS, "written")
    with pytest.raises(NotFoundError):
        connection.delete(MAPS, "written")


def test_a_dry_run_writes_nothing(connection: Connection) -> None:
    connection.create(MAPS, _map("dry"), dry_run=True)
    with pytest.raises(NotFoundError):
        connection.get(MAPS, "dry")


def test_applied_fields_have_an_owner(connection: Connection) -> None:
    connection.apply(MAPS, "applied", _map("applied", a="1", b="1"), manager="one")
    with pytest.raises(ConflictError):
        connection.apply(MAPS, "applied", _map("applied", a="2"), manager="two", force=False)
    connection.apply(MAPS, "applied", _map("applied", a="2"), manager="two")
    # it owned `b`, and does not state it any more
    applied = connection.apply(MAPS, "applied", _map("applied", a="2"), manager="one")
    assert value_at(applied, "data") == {"a": "2"}


def test_a_list_is_continued_by_a_watch(connection: Connection) -> None:
    def labelled(name: str) -> Document:
        return _map(name) | {"metadata": {"name": name, "labels": {"app": "watched"}}}

    connection.create(MAPS, labelled("watched-1"))
    connection.create(MAPS, _map("unwatched"))
    listing = connection.list(MAPS, labels="app=watched")
    assert [metadata_of(each).name for each in listing.items] == ["watched-1"]
    with connection.watch(MAPS, resource_version=listing.resource_version, labels="app=watched") as watch:
        connection.create(MAPS, labelled("watched-2"))
        connection.patch(MAPS, "watched-1", {"data": {"a": "1"}})
        connection.delete(MAPS, "watched-2")
        events = [next(watch) for _ in range(3)]
    assert [(each.kind, metadata_of(each.document).name) for each in events] == [
        ("ADDED", "watched-2"),
        ("MODIFIED", "watched-1"),
        ("DELETED", "watched-2"),
    ]


def test_a_watch_ends_when_its_time_is_over(connection: Connection) -> None:
    version = connection.list(MAPS).resource_version
    names = {metadata_of(event.document).name for event in connection.watch(MAPS, resource_version=version, watch_s=1)}
    assert names <= {""}, "a bookmark at most"


def test_what_is_wrong_with_a_document_is_said(connection: Connection) -> None:
    with pytest.raises(RejectedError, match=r"refused to create pods in namespace default: 422 .*spec\.containers"):
        connection.create(PODS, {"metadata": {"name": "w"}, "spec": {"containers": []}})
    with pytest.raises(ApiError, match=r"does not serve pipelines of headrace\.example/v1") as refused:
        connection.list(Collection("headrace.example/v1", "pipelines", "default"))
    assert type(refused.value) is ApiError, "no missing object"


def test_a_pod_uses_its_service_account(api: LeaseApi, tmp_path: Path) -> None:
    api.allow("in-a-pod", ["list"])
    (tmp_path / "token").write_text(api.token("in-a-pod"))
    (tmp_path / "namespace").write_text("default")
    (tmp_path / "ca.crt").write_text(api.authority())
    server = urlsplit(api.connection.host)
    environment = {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}
    connection = Connection(PodAccess(environment, tmp_path))
    leases = Collection("coordination.k8s.io/v1", "leases", connection.namespace)

    def is_allowed() -> bool:
        try:
            connection.list(leases)
        except ForbiddenError:
            return False
        return True

    try:
        wait_until(is_allowed, "the API server has the Role")
        with pytest.raises(ForbiddenError, match="system:serviceaccount:default:in-a-pod") as refused:
            connection.logs(Collection("v1", "pods", connection.namespace), "w")
        assert refused.value.remedy is not None
        assert 'resources: ["pods/log"], verbs: ["get"]' in refused.value.remedy
    finally:
        connection.close()


def test_a_server_that_hangs_ends_each_request_in_time(api: LeaseApi, connection: Connection) -> None:
    connection.list(MAPS)
    with api.hung():
        # by a connection that is open, then by a new one, whose handshake is not answered
        for _ in range(2):
            with pytest.raises(UnreachableError, match="time limit has passed"):
                connection.list(MAPS, timeout_s=SHORT_S)
    assert connection.list(MAPS).resource_version
