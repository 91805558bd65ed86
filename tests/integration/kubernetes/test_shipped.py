"""The operator as it is shipped: pods of the image of deploy/k8s, by base and by chart, at the restricted level."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.core.errors import ExternalError
from headrace.kubernetes.documents import Collection, metadata_of
from headrace.kubernetes_operator.resources.kinds import JOB
from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import DOUBLING, Flow, running_flow
from support.containers.engine import engine
from support.containers.headrace_image import headrace_image, save_image
from support.containers.shipped_image import NAME as IMAGE
from support.containers.shipped_image import shipped_image
from support.kafka.broker import broker_config
from support.kubernetes.nodes.cluster import NodeCluster
from support.kubernetes.pods.cluster import NAME as CLUSTER_NAME
from support.kubernetes.pods.image_cluster import ImageCluster
from support.operator.flow_job import SMALL
from support.operator.operators import Resources
from support.operator.shipped import OperatorPods, install
from support.patience import BROKER_SESSION
from support.processes.running import wait_until
from support.storage.s3_server import BUCKET, S3Server, s3_server

__all__ = ["engine"]
RECIPE, BUILT = "recipe", "built"
NAME = "departures"
MOMENTS_SECONDS = 4.0
PROGRAM = """\
import sys
from pathlib import Path

import headrace

headrace.jobs()
sys.exit(4 if Path("/var/run/secrets/kubernetes.io").exists() else 3)
"""
"""Its exit code says what it has found."""
RESTRICTED = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}


@pytest.fixture(scope="module", params=[RECIPE, pytest.param(BUILT, marks=pytest.mark.full)])
def image(nodes: NodeCluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> str:
    """An image that the nodes have: without its build, which takes 95 CPU seconds, or with it."""
    if request.param == RECIPE:
        with shipped_image() as archive:
            nodes.import_image(archive)
        return IMAGE
    request.getfixturevalue("engine")
    with headrace_image() as built:
        archive = tmp_path_factory.mktemp("i") / "image.tar"
        save_image(built, archive)
        nodes.import_image(archive)
        archive.unlink()
    return built


@pytest.fixture(scope="module")
def storage(nodes: NodeCluster) -> Iterator[S3Server]:
    with s3_server(nodes.here) as running:
        yield running


@pytest.fixture(params=["base", "chart"])
def cluster(
    nodes: NodeCluster,
    image: str,
    storage: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[ImageCluster]:
    """Nothing of it runs yet; an operator does, in the same namespace."""
    for name, value in nodes.environment.items():
        # clients in this process
        monkeypatch.setenv(name, value)
    with nodes.namespace("operated") as namespace:
        ledger = f"s3://{BUCKET}/{namespace}"
        made = ImageCluster(nodes, namespace, tmp_path / "c", image, ledger, storage.environment())
        made.connection.patch(Collection("v1", "namespaces"), namespace, RESTRICTED)
        install(nodes, request.param, namespace, image, tmp_path)
        yield made
        Resources(made.connection, namespace).remove_all()
        made.close()


@pytest.mark.turns(2)
def test_its_pods_run_a_job_and_leave_the_documented_secrets(nodes: NodeCluster, cluster: ImageCluster) -> None:
    operator = OperatorPods(cluster.connection, cluster.namespace)
    operator.wait_ready()
    resources = Resources(cluster.connection, cluster.namespace, operator)
    spec = {"pipeline": SMALL, "parallelism": 1, "ownCluster": cluster.description(1, coordinators=1)}
    resources.apply(JOB, NAME, spec)
    resources.wait_condition(JOB, NAME, "Ready", "Running")
    assert 'headrace_operator_resources{kind="HeadraceJob"} 1.0' in operator.metrics(operator.leader())
    resources.delete(JOB, NAME)
    resources.wait_gone(JOB, NAME)
    # a replica that ends and is started again is ready for a moment, too
    assert operator.restarts() == 0, operator.logs()
    secrets = cluster.connection.list(Collection("v1", "secrets", cluster.namespace)).items
    assert {metadata_of(each).name for each in secrets} == {f"{NAME}-headrace", f"{NAME}-tls", f"{NAME}-authority"}
    pods = Collection("v1", "pods", cluster.namespace)
    wait_until(lambda: len(cluster.connection.list(pods).items) == 2, "only operators are left")
    # they go with their namespace, before the resources that they keep
    resources.apply(JOB, "kept", {"pipeline": SMALL, "cluster": "none", "state": "suspended"})
    wait_until(lambda: resources.is_kept(JOB, "kept"), "it has the finalizer")
    delete_namespace(nodes, cluster)


@pytest.fixture
def flow(nodes: NodeCluster, cluster: ImageCluster, tmp_path: Path) -> Iterator[Flow]:
    broker = replace(broker_config(tmp_path / "kafka", settings=BROKER_SESSION), host=nodes.here)
    with EmbeddedBroker(broker) as here, running_flow(cluster, here, exactly_once=True) as running:
        yield running


@pytest.mark.full
@pytest.mark.broker
@pytest.mark.parametrize("image", [BUILT], indirect=True)
def test_a_job_is_upgraded_while_operator_and_coordinator_are_killed(
    nodes: NodeCluster, cluster: ImageCluster, flow: Flow
) -> None:
    operator = OperatorPods(cluster.connection, cluster.namespace)
    operator.wait_ready()
    resources = Resources(cluster.connection, cluster.namespace, operator)
    resources.apply(JOB, CLUSTER_NAME, spec_of(cluster, flow.file()))
    follow(resources, flow, "")
    drawn = random.Random(cluster.namespace)
    changes: tuple[Mapping[str, Any], ...] = ({"parallelism": 1}, {"upgradeMode": "last-state"}, {"restartNonce": 1})
    fields: dict[str, Any] = {}
    for change in changes:
        fields |= {**change, "restartNonce": fields.get("restartNonce", 0) + 1}
        before = flow.job
        resources.apply(JOB, CLUSTER_NAME, spec_of(cluster, flow.file(), **fields))
        # some moments into the upgrade, whatever it is doing then
        threading.Event().wait(drawn.uniform(0, MOMENTS_SECONDS))
        for kill, leader in ((operator.kill, operator.leader()), (cluster.kill_pod, cluster.leader())):
            if leader:
                kill(leader)
        follow(resources, flow, before)
    flow.finish()
    resources.wait_status(JOB, CLUSTER_NAME, phase="Ended", state="FINISHED")
    resources.delete(JOB, CLUSTER_NAME)
    resources.wait_gone(JOB, CLUSTER_NAME)
    secrets = cluster.connection.list(Collection("v1", "secrets", cluster.namespace)).items
    names = {f"{CLUSTER_NAME}-headrace", f"{CLUSTER_NAME}-tls", f"{CLUSTER_NAME}-authority"}
    assert {metadata_of(each).name for each in secrets} == names
    delete_namespace(nodes, cluster)


def delete_namespace(nodes: NodeCluster, cluster: ImageCluster) -> None:
    """Deletes the namespace with all that is in it."""
    cluster.connection.delete(Collection("v1", "namespaces"), cluster.namespace)
    wait_until(lambda: nodes.api.find(f"/api/v1/namespaces/{cluster.namespace}") is None, "the namespace is gone")


def spec_of(cluster: ImageCluster, pipeline: str, **fields: Any) -> Mapping[str, Any]:
    """Of the flow's job. Its function is in a ConfigMap, for the image has none of users."""
    maps = Collection("v1", "configmaps", cluster.namespace)
    functions = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"doubling.py": DOUBLING}}
    cluster.connection.apply(maps, "functions", {**functions, "metadata": {"name": "functions"}}, manager="user")
    description = dict(cluster.description())
    description["env"] = {**description["env"], "PYTHONPATH": "/functions", "HEADRACE_LEADER_LEASE": "10s"}
    mount = {"name": "functions", "mountPath": "/functions"}
    for part, container in (("coordinator", "coordinator"), ("workers", "worker")):
        template = {
            "volumes": [{"name": "functions", "configMap": {"name": "functions"}}],
            "containers": [{"name": container, "volumeMounts": [mount]}],
        }
        description[part] = {**description[part], "podTemplate": {"spec": template}}
    return {"pipeline": Path(pipeline).read_text(), "ownCluster": description, **fields}


def follow(resources: Resources, flow: Flow, before: str) -> None:
    """Waits for the job that follows one, and until its output is exact."""
    wait_until(lambda: resources.status(JOB, CLUSTER_NAME).get("jobId") not in {None, before}, "another job")
    resources.wait_condition(JOB, CLUSTER_NAME, "Ready", "Running")
    flow.job = str(resources.status(JOB, CLUSTER_NAME)["jobId"])
    flow.wait_checkpoint()
    flow.settle()


@pytest.mark.full
@pytest.mark.parametrize(("image", "cluster"), [(BUILT, "base")], indirect=True)
def test_a_program_has_no_account_and_its_cluster_ends_with_it(cluster: ImageCluster, tmp_path: Path) -> None:
    program = tmp_path / "app.py"
    program.write_text(PROGRAM)
    config = cluster.write({**cluster.description(), "afterEnd": "20s"})
    done = cluster.headrace("submit", str(program), "--mode", "application", *cluster.named, "--config", config)
    assert done.code == 0, done.err

    def code() -> int | None:
        with contextlib.suppress(ExternalError):
            return cluster.client.cluster().application_exit_code
        return None

    wait_until(lambda: code() is not None, "the program has ended")
    assert code() == 3
    deployments = Collection("apps/v1", "deployments", cluster.namespace)
    labelled = f"headrace.dev/cluster={CLUSTER_NAME}"
    wait_until(lambda: not cluster.connection.list(deployments, labels=labelled).items, "the cluster is deleted")
