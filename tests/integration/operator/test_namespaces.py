"""Namespaces with resources of ours are deleted whole. With the rights of the chart, on a real API server; no pod runs
here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Collection, metadata_of
from headrace.kubernetes_operator.resources.kinds import CLUSTER, JOB, KINDS, SNAPSHOT
from headrace.kubernetes_operator.shell.resource_store import collection_of, identity_of
from support.kubernetes.control.kubernetes import Kubernetes
from support.kubernetes.documents.chart import rendered_chart
from support.operator.flow_job import SMALL
from support.operator.operators import Operators, Resources
from support.processes.running import wait_until

SPEC = {"image": "headrace:1", "ledger": "s3://bucket/flights"}
NAMESPACES = Collection("v1", "namespaces")


@contextmanager
def installed(kubernetes: Kubernetes, namespace: str, watched: Sequence[str], folder: Path) -> Iterator[Operators]:
    """An operator with its account as the chart makes it. watched: empty: its own namespace."""
    values = {"enabled": True, "image": "headrace:1", "replicas": 0, "watchNamespaces": list(watched)}
    kubernetes.kubectl("apply", "--filename", "-", given=rendered_chart(folder, namespace, {"operator": values}))
    token = kubernetes.kubectl("--namespace", namespace, "create", "token", "headrace-operator").strip()
    kubeconfig = kubernetes.kubeconfig_of(token, folder / "kubeconfig", namespace)
    operators = Operators(namespace, folder, kubeconfig, watched=watched or None)
    operators.start("only")
    try:
        yield operators
    finally:
        operators.close()


def fill(resources: Resources) -> None:
    """Makes one resource of each kind, and waits until the operator keeps them and has applied the clusters."""
    resources.apply(CLUSTER, "session", SPEC)
    resources.apply(JOB, "departures", {"pipeline": SMALL, "ownCluster": SPEC, "onDelete": "savepoint"})
    resources.apply(SNAPSHOT, "first", {"job": "departures", "disposal": "delete"})
    wait_until(lambda: kept(resources) == {CLUSTER.name, JOB.name, SNAPSHOT.name}, "they are kept")
    resources.wait(lambda: bool(resources.status(CLUSTER, "session").get("applied")), "applied", CLUSTER, "session")


def kept(resources: Resources) -> set[str]:
    """Kinds with a resource that has a finalizer of ours."""
    return {
        kind.name
        for kind in KINDS
        for each in resources.connection.list(collection_of(kind, resources.namespace)).items
        if identity_of(each).is_kept
    }


@pytest.fixture
def data(kubernetes: Kubernetes) -> Iterator[str]:
    with kubernetes.namespace("data") as namespace:
        yield namespace


def test_a_namespace_that_an_operator_elsewhere_watches_goes(
    kubernetes: Kubernetes, connection: Connection, namespace: str, data: str, tmp_path: Path
) -> None:
    with installed(kubernetes, namespace, [data], tmp_path) as operators:
        resources = Resources(connection, data, operators)
        fill(resources)
        # the operator's rights there go with it
        connection.delete(NAMESPACES, data)
        path = f"/api/v1/namespaces/{data}"
        wait_until(lambda: kubernetes.api.find(path) is None, f"the namespace is gone\n{operators.logs()}")
        # and another one is looked after as before
        assert operators.end("only") == 0, operators.logs()


def test_an_operator_that_goes_with_its_namespace_releases_what_is_there(
    kubernetes: Kubernetes, connection: Connection, data: str, tmp_path: Path
) -> None:
    # Kubernetes deletes pods first, and this one stands for that of the operator
    pod = {
        "metadata": {"name": "operator", "finalizers": ["tests/pod"]},
        "spec": {"containers": [{"name": "operator", "image": "headrace:1"}]},
    }
    with installed(kubernetes, data, [], tmp_path) as operators:
        resources = Resources(connection, data, operators)
        fill(resources)
        kubernetes.api.create(f"/api/v1/namespaces/{data}/pods", pod)
        connection.delete(NAMESPACES, data)
        pods = Collection("v1", "pods", data)
        wait_until(lambda: metadata_of(connection.get(pods, "operator")).is_deleted, "its pod ends")
        assert operators.end("only") == 0, operators.logs()
        assert kept(resources) == set()
    connection.patch(pods, "operator", {"metadata": {"finalizers": []}})
    wait_until(lambda: kubernetes.api.find(f"/api/v1/namespaces/{data}") is None, "the namespace is gone")
