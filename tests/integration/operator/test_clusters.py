"""Clusters of the operator on a real API server: what it applies, says and deletes. No pod runs here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Collection, metadata_of, value_at
from headrace.kubernetes_operator.resources.kinds import CLUSTER, JOB
from support.kubernetes.control.kubernetes import Kubernetes
from support.operator.operators import Resources, operators, owners, pod_names
from support.operator.page import shown_resources
from support.processes.running import wait_until

pytestmark = pytest.mark.turns(2)

SPEC: dict[str, Any] = {"image": "headrace:1", "ledger": "s3://bucket/flights"}
PIPELINE = """\
name: flights
sources: {n: {generator: {rate: 1, columns: {n: {sequence: {}}}}, schema: {n: int64}}}
sinks: {o: {from: n, print: {}, format: json}}
"""


@pytest.fixture(scope="module")
def resources(
    kubernetes: Kubernetes, connection: Connection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Resources]:
    """A namespace with an operator."""
    folder = tmp_path_factory.mktemp("o")
    with kubernetes.namespace("operated") as namespace, operators(kubernetes, namespace, folder) as running:
        account = Collection("v1", "serviceaccounts", namespace)
        connection.create(account, {"metadata": {"name": "headrace-coordinator"}})
        running.start("only")
        found = Resources(connection, namespace, running)
        yield found
        found.remove_all()


def deployments(resources: Resources) -> Collection:
    return Collection("apps/v1", "deployments", resources.namespace)


def fail_image(connection: Connection, namespace: str, stem: str) -> None:
    """Does the kubelet's part for a pod whose image is missing."""
    pods = Collection("v1", "pods", namespace)
    wait_until(lambda: any(name.startswith(stem) for name in pod_names(connection, namespace)), "a pod")
    (name,) = (name for name in pod_names(connection, namespace) if name.startswith(stem))
    waiting = {"reason": "ErrImagePull", "message": 'image "headrace:1" is not there'}
    container = {"name": "coordinator", "image": "headrace:1", "imageID": "", "ready": False, "restartCount": 0}
    status = {"phase": "Pending", "containerStatuses": [{**container, "state": {"waiting": waiting}}]}
    connection.patch(pods, name, {"status": status}, subresource="status")


def test_a_cluster_is_applied_changed_and_deleted(resources: Resources, connection: Connection) -> None:
    resources.apply(CLUSTER, "session", SPEC)
    resources.wait_status(CLUSTER, "session", state="Starting", coordinators="0/1")
    wait_until(lambda: "session" in _deployed(resources, connection), "it is applied")
    wait_until(lambda: owners(connection, resources.namespace, "session") == [CLUSTER.name], "it has an owner")
    fail_image(connection, resources.namespace, "session-")
    message = resources.wait_condition(CLUSTER, "session", "Degraded", "PodsDoNotRun")
    assert 'image "headrace:1" is not there' in message
    resources.wait_event("session", "PodsDoNotRun", warns=True)

    resources.apply(CLUSTER, "session", {**SPEC, "image": "headrace:2", "coordinator": {"replicas": 2}})
    wait_until(lambda: _deployed(resources, connection)["session"] == ("headrace:2", 2), "the change is applied")
    wait_until(
        lambda: resources.status(CLUSTER, "session")["observedGeneration"] == 2, "the status is that of the change"
    )

    resources.delete(CLUSTER, "session")
    resources.wait_gone(CLUSTER, "session")
    assert "session" not in _deployed(resources, connection)
    # without its key nobody can read the jobs of the ledger
    connection.get(Collection("v1", "secrets", resources.namespace), "session-headrace")


def test_a_cluster_that_cannot_be_is_said(resources: Resources) -> None:
    resources.apply(CLUSTER, "wrong", {**SPEC, "workers": {"min": 3, "max": 2}})
    resources.wait_condition(CLUSTER, "wrong", "Degraded", "InvalidSpec")
    resources.delete(CLUSTER, "wrong")
    resources.wait_gone(CLUSTER, "wrong")


def test_a_job_has_a_cluster_of_its_own_while_it_lives(resources: Resources, connection: Connection) -> None:
    resources.apply(JOB, "alone", {"pipeline": PIPELINE, "ownCluster": SPEC, "onDelete": "cancel"})
    resources.wait_status(JOB, "alone", phase="Submitting")
    wait_until(lambda: "alone" in _deployed(resources, connection), "its cluster is applied")
    wait_until(lambda: owners(connection, resources.namespace, "alone") == [JOB.name], "it has an owner")
    fail_image(connection, resources.namespace, "alone-")
    message = resources.wait_condition(JOB, "alone", "Degraded", "PodsDoNotRun")
    assert "ErrImagePull" in message
    resources.wait_condition(JOB, "alone", "Ready", "PodsDoNotRun")

    # a job that never ran goes with its cluster
    resources.delete(JOB, "alone")
    resources.wait_gone(JOB, "alone")
    assert "alone" not in _deployed(resources, connection)


def test_a_job_takes_no_cluster_of_others(resources: Resources, connection: Connection) -> None:
    resources.apply(CLUSTER, "taken", SPEC)
    wait_until(lambda: "taken" in _deployed(resources, connection), "it is applied")
    resources.apply(JOB, "taken", {"pipeline": PIPELINE, "ownCluster": {**SPEC, "image": "headrace:3"}})
    resources.wait_condition(JOB, "taken", "Degraded", "NoCluster")
    resources.delete(JOB, "taken")
    resources.wait_gone(JOB, "taken")
    assert _deployed(resources, connection)["taken"] == ("headrace:1", 1)
    resources.delete(CLUSTER, "taken")
    resources.wait_gone(CLUSTER, "taken")


def test_a_job_without_its_cluster_or_pipeline_says_so(resources: Resources, connection: Connection) -> None:
    maps = Collection("v1", "configmaps", resources.namespace)
    source = {"pipelineFrom": {"configMap": {"name": "pipelines", "key": "flights.yaml"}}}
    resources.apply(JOB, "lonely", {**source, "cluster": "nowhere"})
    assert "no ConfigMap pipelines" in resources.wait_condition(JOB, "lonely", "Degraded", "NoPipeline")
    connection.create(maps, {"metadata": {"name": "pipelines"}, "data": {"flights.yaml": PIPELINE}})
    resources.wait_condition(JOB, "lonely", "Degraded", "NoCluster")
    resources.delete(JOB, "lonely")
    resources.wait_gone(JOB, "lonely")


def test_the_cluster_of_the_page_is_applied(resources: Resources, connection: Connection) -> None:
    shown = shown_resources()[CLUSTER.name]
    name = shown["metadata"]["name"]
    resources.apply(CLUSTER, name, shown["spec"])
    wait_until(lambda: _deployed(resources, connection).get(name) == (shown["spec"]["image"], 1), "it is applied")
    workers = connection.get(Collection("v1", "configmaps", resources.namespace), f"{name}-headrace")
    assert workers["data"]
    resources.delete(CLUSTER, name)
    resources.wait_gone(CLUSTER, name)


def _deployed(resources: Resources, connection: Connection) -> dict[str, tuple[str, int]]:
    """Deployment -> image and replicas."""
    found = {}
    for each in connection.list(deployments(resources)).items:
        containers = value_at(each, "spec", "template", "spec", "containers")
        assert isinstance(containers, list)
        (container,) = containers
        replicas = value_at(each, "spec", "replicas")
        assert isinstance(container, dict)
        assert isinstance(replicas, int)
        found[metadata_of(each).name] = (str(container["image"]), replicas)
    return found
