"""A HeadraceJob with a cluster of its own, in pods that speak TLS: upgraded, and gone with its resource."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.kubernetes.documents import Collection, metadata_of
from headrace.kubernetes_operator.resources.kinds import JOB
from headrace.leadership.lease_record import API, PLURAL
from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, running_flow
from support.kafka.broker import broker_config
from support.kubernetes.nodes.cluster import NodeCluster
from support.kubernetes.pods.cluster import NAME, PodCluster
from support.kubernetes.pods.coordinator_account import make_account
from support.operator.definitions import install_definitions
from support.operator.operators import LEASE, Resources, operators
from support.patience import BROKER_SESSION
from support.processes.running import wait_until

pytestmark = [pytest.mark.full, pytest.mark.broker]


@pytest.fixture
def cluster(nodes: NodeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PodCluster]:
    """Nothing of it runs yet."""
    for name, value in nodes.environment.items():
        # clients in this process
        monkeypatch.setenv(name, value)
    with nodes.namespace("operated") as namespace:
        made = PodCluster(nodes, namespace, tmp_path / "c")
        make_account(made.connection, namespace)
        install_definitions(made.connection)
        yield made
        made.end()
        made.connection.close()


@pytest.fixture
def resources(nodes: NodeCluster, cluster: PodCluster, tmp_path: Path) -> Iterator[Resources]:
    """With an operator."""
    folder = tmp_path / "o"
    folder.mkdir()
    with operators(nodes, cluster.namespace, folder) as running:
        running.start("only")
        found = Resources(cluster.connection, cluster.namespace, running)
        yield found
        found.remove_all()
    # its own, which no cluster has
    cluster.connection.delete(Collection(API, PLURAL, cluster.namespace), LEASE)


@pytest.fixture
def flow(nodes: NodeCluster, cluster: PodCluster, tmp_path: Path) -> Iterator[Flow]:
    broker = replace(broker_config(tmp_path / "kafka", settings=BROKER_SESSION), host=nodes.here)
    with EmbeddedBroker(broker) as here, running_flow(cluster, here, exactly_once=True) as running:
        yield running


def spec_of(cluster: PodCluster, flow: Flow, **fields: Any) -> dict[str, Any]:
    """The pods find the functions of the pipeline in the folder of the ledger, as they would in an image."""
    description = dict(cluster.description(coordinators=1))
    shutil.copy(cluster.folder / "doubling.py", cluster.shared)
    description["env"] = {**description["env"], "PYTHONPATH": "/ledger"}
    return {"pipeline": Path(flow.file()).read_text(), "ownCluster": description, **fields}


def test_a_job_with_its_own_cluster(cluster: PodCluster, resources: Resources, flow: Flow) -> None:
    resources.apply(JOB, NAME, spec_of(cluster, flow))
    status = resources.wait_status(JOB, NAME, phase="Running", state="RUNNING")
    flow.job = str(status["jobId"])
    flow.wait_checkpoint()
    flow.settle()

    resources.apply(JOB, NAME, spec_of(cluster, flow, parallelism=1, savepointFolder="/ledger/saved"))
    wait_until(lambda: resources.status(JOB, NAME).get("jobId") != flow.job, "another job takes its place")
    status = resources.wait_status(JOB, NAME, phase="Running", state="RUNNING")
    assert status["previousJobId"] == flow.job
    flow.job = str(status["jobId"])
    flow.wait_checkpoint()
    flow.settle()

    with flow.feed.paused():
        flow.wait_exact()
        resources.delete(JOB, NAME)
        resources.wait_gone(JOB, NAME)
        flow.wait_exact()
    pods = Collection("v1", "pods", cluster.namespace)
    wait_until(lambda: not cluster.connection.list(pods).items, "its cluster is gone with it")
    left = cluster.connection.list(Collection("v1", "secrets", cluster.namespace)).items
    assert {metadata_of(each).name for each in left} == {f"{NAME}-headrace", f"{NAME}-tls", f"{NAME}-authority"}
