"""What is Kubernetes' own about a cluster of pods; `integration/deployment` has what every target does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, exact_flow
from support.kafka.broker import broker_config
from support.kubernetes.nodes.cluster import NodeCluster
from support.kubernetes.pods.cluster import PodCluster, pod_cluster
from support.kubernetes.pods.coordinator_account import make_account
from support.patience import BROKER_SESSION
from support.processes.running import wait_until

pytestmark = pytest.mark.full
SLOTS = 2


@pytest.fixture(scope="module")
def cluster(nodes: NodeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    monkeypatch = pytest.MonkeyPatch()
    for name, value in nodes.environment.items():
        # clients in this process
        monkeypatch.setenv(name, value)
    with pod_cluster(nodes, tmp_path_factory.mktemp("c")) as running:
        yield running
    monkeypatch.undo()


@pytest.fixture(scope="module")
def broker_here(nodes: NodeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """Listens where pods reach it, and this test too."""
    config = broker_config(tmp_path_factory.mktemp("b") / "kafka", settings=BROKER_SESSION)
    with EmbeddedBroker(replace(config, host=nodes.here)) as running:
        yield running


@pytest.fixture(scope="module")
def flow(cluster: PodCluster, broker_here: EmbeddedBroker) -> Iterator[Flow]:
    assert not cluster.workers(), "no job needs any"
    with exact_flow(cluster, broker_here, exactly_once=True) as running:
        yield running
    wait_until(lambda: not cluster.workers(), "all workers are released")


@pytest.mark.broker
def test_a_job_gets_the_pods_that_it_needs(cluster: PodCluster, flow: Flow) -> None:
    assert len(cluster.workers()) == SLOTS
    assert sorted(cluster.hosts_of(flow.job)) == sorted(cluster.workers())
    status = cluster.headrace(
        "cluster", "status", "--target", "kubernetes", "--name", "flights", "-n", cluster.namespace, "--json"
    )
    assert status.code == 0, status.err
    assert set(status.json["workers"].values()) == {"Running"}
    assert len(status.json["coordinators"]) == 2


def test_a_drain_evicts_one_coordinator_at_a_time(cluster: PodCluster, nodes: NodeCluster) -> None:
    wait_until(lambda: cluster.ready_coordinators() == 2, "both coordinators are ready")
    leader = cluster.leader()
    (standby,) = set(cluster.coordinators()) - {leader}
    with nodes.cordoned("node1"):
        wait_until(lambda: cluster.evict(standby), "the budget allows one")
        assert not cluster.evict(leader)
    wait_until(lambda: cluster.ready_coordinators() == 2, "another one is ready")
    assert cluster.leader() == leader


@pytest.mark.broker
def test_a_certificate_that_is_replaced_disturbs_no_job(cluster: PodCluster, flow: Flow) -> None:
    before = cluster.wait_state(flow.job, "RUNNING").attempt
    first = cluster.presented_certificate()
    cluster.replace_certificate()
    wait_until(lambda: cluster.presented_certificate() != first, "the leader presents the new one")
    assert cluster.wait_state(flow.job, "RUNNING").attempt == before
    flow.settle()


def test_an_image_that_is_missing_is_named(nodes: NodeCluster, tmp_path: Path) -> None:
    with nodes.namespace("none") as namespace:
        cluster = PodCluster(nodes, namespace, tmp_path)
        make_account(cluster.connection, namespace)
        (tmp_path / "c.yaml").write_text("image: none:1\nimagePullPolicy: Never\nledger: /ledger\n")
        named = ("--target", "kubernetes", "--name", "flights", "-n", namespace)
        starting = cluster.begin("cluster", "start", *named, "--config", str(tmp_path / "c.yaml"))

        def is_named() -> bool:
            return "ErrImageNeverPull" in cluster.headrace("cluster", "status", *named).err

        wait_until(is_named, "the status names the image")
        starting.kill()
        starting.communicate()
        cluster.end()
        cluster.connection.close()
