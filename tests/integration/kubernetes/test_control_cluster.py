"""The control plane for tests: real, and broken on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.errors import ExternalError, HeadraceError, UnreachableError
from headrace.kubernetes.collection import Collection
from headrace.kubernetes.documents import metadata_of
from headrace.kubernetes.refusals import AlreadyExistsError, NotFoundError
from support.kubernetes.control_cluster import API_SERVER, ControlCluster, control_cluster
from support.processes.running import wait_until

MAPS = Collection("v1", "configmaps", "default")


def test_what_an_object_owns_is_deleted_with_it(control: ControlCluster) -> None:
    connection = control.connection()
    owner = metadata_of(connection.create(MAPS, {"metadata": {"name": "owner"}}))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid}
    connection.create(MAPS, {"metadata": {"name": "owned", "ownerReferences": [reference]}})
    with pytest.raises(AlreadyExistsError):
        connection.create(MAPS, {"metadata": {"name": "owned"}})
    connection.delete(MAPS, "owner", uid=owner.uid)

    def is_collected() -> bool:
        try:
            connection.get(MAPS, "owned")
        except NotFoundError:
            return True
        return False

    wait_until(is_collected, "what it owned is gone")
    connection.close()


def test_an_api_server_that_hangs_and_one_that_is_killed(tmp_path: Path) -> None:
    with control_cluster(tmp_path) as cluster:
        connection = cluster.connection()
        connection.create(MAPS, {"metadata": {"name": "kept"}})
        with cluster.hung(API_SERVER), pytest.raises(UnreachableError):
            connection.get(MAPS, "kept", timeout_s=1)
        assert metadata_of(connection.get(MAPS, "kept")).name == "kept"
        cluster.kill(API_SERVER)
        with pytest.raises(ExternalError):
            connection.get(MAPS, "kept")
        cluster.start(API_SERVER)

        def has_kept() -> bool:
            try:
                return metadata_of(connection.get(MAPS, "kept")).name == "kept"
            except HeadraceError:
                return False

        wait_until(has_kept, "what was stored is there")
        connection.close()
