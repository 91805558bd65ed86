"""Replays by Spark's own scheduler on a real Kubernetes, with the rights that the page gives: driver and executor are
pods. Faults are in `containers/test_spark_kubernetes`, whose API is a stand-in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.containers.engine import engine
from support.flows.sent import check_results, write_project
from support.kubernetes.node_cluster import NodeCluster
from support.kubernetes.spark_pods import (
    ROLES,
    host_volume,
    import_spark_image,
    make_spark_account,
    spark_settings,
)
from support.patience import SPARK_SECONDS
from support.processes.running import finish, start, wait_until

__all__ = ["engine"]
STORAGE = "/mnt/checkpoints"

pytestmark = [pytest.mark.full, pytest.mark.timeout(1_200)]


@pytest.fixture
def namespace(engine: None, nodes: NodeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """One with the account of Spark, as which commands here talk to the API server."""
    import_spark_image(nodes, tmp_path)
    with nodes.namespace("spark") as name:
        monkeypatch.setenv("KUBECONFIG", str(make_spark_account(nodes, name, tmp_path)))
        yield name


def test_driver_and_executor_are_pods(nodes: NodeCluster, namespace: str, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    file = write_project(tmp_path / "project", storage=STORAGE)
    conf = dict(spark_settings(namespace))
    for role in ROLES:
        conf |= host_volume(role, "shared", shared, STORAGE)
    settings = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    command = ("replay", str(file), "--master", f"k8s://{nodes.url}", "--deploy-mode", "cluster", "--json", *settings)
    done = finish(start(command, tmp_path), SPARK_SECONDS)
    assert done.code == 0, f"{done.err}\n{done.out}"
    assert json.loads(done.out)["rows_in"] == 3_000
    check_results(shared / "out")
    (driver,) = pods(nodes, namespace, "driver")
    assert driver["status"]["phase"] == "Succeeded"
    wait_until(lambda: not pods(nodes, namespace, "executor"), "the executor is gone")


def pods(nodes: NodeCluster, namespace: str, role: str) -> list[dict[str, object]]:
    listed = nodes.api.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector=spark-role%3D{role}")
    return list(listed["items"])
