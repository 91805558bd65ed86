"""Replays by Spark's own scheduler on a real Kubernetes, with the rights that the page gives: driver and executor are
pods. Faults are in `containers/test_spark_kubernetes`, whose API is a stand-in.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.containers.engine import engine
from support.flows.sent import check_results, write_project
from support.kubernetes.nodes.cluster import NodeCluster
from support.kubernetes.pods.spark_pods import (
    ROLES,
    host_volume,
    import_spark_image,
    make_spark_account,
    spark_settings,
)
from support.patience import SPARK_SECONDS
from support.processes.running import Finished, finish, start, wait_until
from support.storage.s3_server import BUCKET, S3Server, s3_server

__all__ = ["engine"]
RESULTS = "/mnt/results"
INTERRUPTED = 128 + signal.SIGINT
SECRET_VARIABLE, SECRET = "AWS_SECRET_ACCESS_KEY", "not-to-be-seen"

pytestmark = pytest.mark.full


@pytest.fixture
def namespace(engine: None, nodes: NodeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """One with the account of Spark, as which commands here talk to the API server."""
    import_spark_image(nodes, tmp_path)
    with nodes.namespace("spark") as name:
        monkeypatch.setenv("KUBECONFIG", str(make_spark_account(nodes, name, tmp_path)))
        yield name


@pytest.fixture
def storage(nodes: NodeCluster) -> Iterator[S3Server]:
    with s3_server(nodes.here) as running:
        yield running


def test_driver_and_executor_are_pods_and_secrets_stay_secrets(
    nodes: NodeCluster, namespace: str, storage: S3Server, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    nodes.kubectl("--namespace", namespace, "create", "secret", "generic", "s3", f"--from-literal=key={SECRET}")
    conf = dict(spark_settings(namespace))
    for role, prefix in (("driver", "spark.kubernetes.driverEnv"), ("executor", "spark.executorEnv")):
        conf |= host_volume(role, "shared", shared, RESULTS)
        conf |= {f"{prefix}.{name}": value for name, value in storage.environment().items() if name != SECRET_VARIABLE}
        conf[f"spark.kubernetes.{role}.secretKeyRef.{SECRET_VARIABLE}"] = "s3:key"

    done = replay(nodes, project(tmp_path), conf, tmp_path)
    assert done.code == 0, f"{done.err}\n{done.out}"
    assert done.json["rows_in"] == 3_000
    check_results(shared / "out")
    (driver,) = pods(nodes, namespace, "driver")
    assert driver["status"]["phase"] == "Succeeded"
    assert SECRET not in json.dumps(driver)
    assert SECRET not in nodes.kubectl("--namespace", namespace, "get", "configmaps", "--output", "json")
    wait_until(lambda: not pods(nodes, namespace, "executor"), "the executor is gone")


def test_follow_goes_on_until_it_is_interrupted(nodes: NodeCluster, namespace: str, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    conf = dict(spark_settings(namespace))
    for role in ROLES:
        conf |= host_volume(role, "shared", shared, RESULTS)
    file = write_project(tmp_path / "project", storage=RESULTS)
    process = start(replay_command(nodes, file, conf, "--follow", "--trigger-interval", "1s"), tmp_path)

    def has_published() -> bool:
        return process.poll() is not None or any((shared / "out").rglob("part-*"))

    wait_until(has_published, "an increment is published", SPARK_SECONDS)
    assert process.poll() is None, finish(process).err
    assert len(pods(nodes, namespace, "executor")) == 1
    process.send_signal(signal.SIGINT)
    assert finish(process).code == INTERRUPTED
    wait_until(lambda: not any(pods(nodes, namespace, role) for role in ROLES), "no pod is left")


def project(folder: Path) -> Path:
    """A pipeline file with modules beside it: its checkpoints are in object storage, its results in a volume."""
    file = write_project(folder / "project", storage=RESULTS)
    document = json.loads(file.read_text())
    document["checkpoint"] = {"storage": f"s3://{BUCKET}/replay"}
    file.write_text(json.dumps(document))
    return file


def replay(nodes: NodeCluster, file: Path, conf: Mapping[str, str], folder: Path) -> Finished:
    return finish(start(replay_command(nodes, file, conf, "--json"), folder), SPARK_SECONDS)


def replay_command(nodes: NodeCluster, file: Path, conf: Mapping[str, str], *options: str) -> list[str]:
    settings = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    return ["replay", str(file), "--master", f"k8s://{nodes.url}", "--deploy-mode", "cluster", *options, *settings]


def pods(nodes: NodeCluster, namespace: str, role: str) -> list[dict[str, Any]]:
    """Spark's pods of a role that are there now."""
    listed = nodes.api.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector=spark-role%3D{role}")
    return list(listed["items"])
