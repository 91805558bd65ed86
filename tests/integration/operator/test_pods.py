"""A job with a cluster of its own, as real pods: it runs, says what keeps pods from running, and leaves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Collection
from headrace.kubernetes_operator.resources.kinds import JOB
from support.kubernetes.nodes.cluster import NodeCluster, node_cluster
from support.kubernetes.nodes.image_archive import MACHINE_IMAGE
from support.kubernetes.pods.cluster import LEDGER, machine_template
from support.kubernetes.pods.coordinator_account import make_account
from support.operator.definitions import install_definitions
from support.operator.flow_job import SMALL
from support.operator.operators import Resources, operators, pod_names
from support.patience import CLUSTER_TIMES
from support.processes.running import wait_until

pytestmark = pytest.mark.turns(4, of="files")

NAME = "departures"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    with node_cluster(tmp_path_factory.mktemp("n")) as running:
        yield running


@pytest.fixture(scope="module")
def connection(nodes: NodeCluster) -> Iterator[Connection]:
    opened = nodes.connection()
    install_definitions(opened)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def resources(
    nodes: NodeCluster, connection: Connection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Resources]:
    """A namespace with an operator."""
    folder = tmp_path_factory.mktemp("o")
    with nodes.namespace("operated") as namespace, operators(nodes, namespace, folder) as running:
        make_account(connection, namespace)
        running.start("only")
        found = Resources(connection, namespace, running)
        yield found
        found.remove_all()


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_folder(tmp_path_factory.mktemp("l"))


def shared_folder(folder: Path) -> Path:
    # pods run as a user of their own
    folder.chmod(0o777)
    return folder


def spec_of(ledger: Path, *, image: str = MACHINE_IMAGE) -> dict[str, Any]:
    """A job with a cluster of its own. image: of its workers."""
    template = machine_template(ledger, "worker")
    (container,) = template["spec"]["containers"]
    workers = {"spec": {**template["spec"], "containers": [{**container, "image": image}]}}
    own = {
        "image": MACHINE_IMAGE,
        "imagePullPolicy": "Never",
        "ledger": LEDGER,
        "env": dict(CLUSTER_TIMES),
        "coordinator": {"cpu": "50m", "podTemplate": machine_template(ledger, "coordinator")},
        "workers": {"max": 1, "idle": "1s", "cpu": "50m", "memory": "1Gi", "podTemplate": workers},
    }
    return {"pipeline": SMALL, "parallelism": 1, "ownCluster": own}


def test_a_job_runs_in_its_own_pods_and_takes_them_along(
    resources: Resources, connection: Connection, ledger: Path
) -> None:
    resources.apply(JOB, NAME, spec_of(ledger))
    resources.wait_condition(JOB, NAME, "Ready", "Running")
    assert len(pod_names(connection, resources.namespace)) == 2
    first = resources.status(JOB, NAME)["jobId"]

    # suspended, it needs no pods
    resources.apply(JOB, NAME, {**spec_of(ledger), "state": "suspended"})
    resources.wait_status(JOB, NAME, state="SUSPENDED")
    wait_until(lambda: pod_names(connection, resources.namespace) == [], "its pods are gone")
    resources.apply(JOB, NAME, spec_of(ledger))
    resources.wait_condition(JOB, NAME, "Ready", "Running")
    status = resources.status(JOB, NAME)
    assert (status["previousJobId"], first in status["origin"]) == (first, True)

    delete(resources, connection, NAME)
    deployments = Collection("apps/v1", "deployments", resources.namespace)
    assert connection.list(deployments).items == ()


@pytest.mark.full
def test_coordinators_that_crash_again_and_again_are_said(
    resources: Resources, connection: Connection, ledger: Path
) -> None:
    """The ledger is that of another cluster, with another key."""
    resources.apply(JOB, "crashing", spec_of(ledger))
    resources.wait_condition(JOB, "crashing", "Degraded", "PodsDoNotRun")
    resources.wait_event("crashing", "PodsDoNotRun", warns=True, says="it was encrypted with another key")
    delete(resources, connection, "crashing")


@pytest.mark.full
def test_workers_whose_image_is_missing_are_said(resources: Resources, connection: Connection, tmp_path: Path) -> None:
    resources.apply(JOB, "stuck", spec_of(shared_folder(tmp_path), image="nowhere:1"))
    message = resources.wait_condition(JOB, "stuck", "Degraded", "WorkersDoNotRun")
    assert "ErrImageNeverPull" in message
    resources.wait_event("stuck", "WorkersDoNotRun", warns=True)
    delete(resources, connection, "stuck")


def delete(resources: Resources, connection: Connection, name: str) -> None:
    """Deletes a job, and waits until nothing of its cluster runs."""
    resources.delete(JOB, name)
    resources.wait_gone(JOB, name)
    assert pod_names(connection, resources.namespace) == []
