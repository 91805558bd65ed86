"""A cluster of pods on two nodes: one is cut off, one is lost with the leader, and the API server is away for a minute.

Storage stays reachable from everywhere: what a pod does that was given up may be written, and must not count.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, exact_flow
from support.kafka.broker import broker_config
from support.kubernetes.control.cluster import API_SERVER
from support.kubernetes.nodes.cluster import NodeCluster
from support.kubernetes.pods.cluster import PodCluster
from support.kubernetes.pods.coordinator_account import make_account
from support.patience import BROKER_SESSION
from support.processes.running import wait_until

pytestmark = [pytest.mark.full, pytest.mark.broker]
AWAY_SECONDS = 60.0
SPREAD = {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}


@pytest.fixture
def flow(two_nodes: NodeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Flow]:
    for name, value in two_nodes.environment.items():
        # clients in this process
        monkeypatch.setenv(name, value)
    broker = replace(broker_config(tmp_path / "kafka", settings=BROKER_SESSION), host=two_nodes.here)
    with EmbeddedBroker(broker) as running, spread_cluster(two_nodes, tmp_path / "c") as cluster:
        with exact_flow(cluster, running, exactly_once=True) as started:
            yield started
        wait_until(lambda: not cluster.workers(), "all workers are released")


@contextmanager
def spread_cluster(nodes: NodeCluster, folder: Path) -> Iterator[PodCluster]:
    """A coordinator and a worker on each node."""
    with nodes.namespace("flights") as namespace:
        cluster = PodCluster(nodes, namespace, folder)
        make_account(cluster.connection, namespace)
        description = dict(cluster.description())
        for role in ("coordinator", "workers"):
            description[role] = spread(description[role])
        try:
            cluster.apply(description)
            yield cluster
        finally:
            cluster.end()
            cluster.connection.close()


def spread(pods: Mapping[str, Any]) -> Mapping[str, Any]:
    """The pods of a description, spread over the nodes."""
    component = {"headrace.dev/cluster": "flights"}
    spec = pods["podTemplate"]["spec"]
    constraint = {
        **SPREAD,
        "labelSelector": {"matchLabels": component},
        "matchLabelKeys": ["app.kubernetes.io/component"],
    }
    return {**pods, "podTemplate": {"spec": {**spec, "topologySpreadConstraints": [constraint]}}}


def cluster_of(flow: Flow) -> PodCluster:
    assert isinstance(flow.cluster, PodCluster)
    return flow.cluster


def node_of(nodes: NodeCluster, cluster: PodCluster, pod: str) -> str:
    found = nodes.pod(cluster.namespace, pod)
    assert found is not None
    return str(found["spec"]["nodeName"])


def other_than(nodes: NodeCluster, name: str) -> str:
    return next(each for each in nodes.nodes if each != name)


def test_workers_of_a_node_that_is_cut_off_are_replaced_and_what_they_still_do_does_not_count(
    two_nodes: NodeCluster, flow: Flow
) -> None:
    cluster = cluster_of(flow)
    away = other_than(two_nodes, node_of(two_nodes, cluster, cluster.leader()))
    lost = [each for each in cluster.workers() if node_of(two_nodes, cluster, each) == away]
    assert lost, "a worker is on each node"
    with two_nodes.cut_off(away):
        with flow.recovering("node cut off"):
            flow.wait_other_attempt()
        # by our own beats: Kubernetes may take longer to notice
        assert not set(lost) & cluster.hosts_of(flow.job).keys()
        flow.settle()
    wait_until(lambda: not set(lost) & set(cluster.workers()), "the pods that came back have ended")
    flow.settle()
    two_nodes.wait_node(away, ready=True)


def test_a_node_that_is_lost_with_the_leader(two_nodes: NodeCluster, flow: Flow) -> None:
    cluster = cluster_of(flow)
    leader = cluster.leader()
    lost = node_of(two_nodes, cluster, leader)
    with flow.recovering("node of the leader killed"):
        two_nodes.kill_node(lost)
        wait_until(lambda: cluster.leader() not in {"", leader}, "the standby on the other node leads")
        flow.wait_other_attempt()
    assert {node_of(two_nodes, cluster, each) for each in cluster.hosts_of(flow.job)} == {other_than(two_nodes, lost)}
    # nobody there confirms their end: whoever knows that the node is gone says so
    for pod in cluster.phases():
        if node_of(two_nodes, cluster, pod) == lost:
            cluster.kill_pod(pod)


def test_an_api_server_that_is_away_for_a_minute(two_nodes: NodeCluster, flow: Flow) -> None:
    two_nodes.kill(API_SERVER)
    try:
        # a time that passes is what this is about
        time.sleep(AWAY_SECONDS)
    finally:
        two_nodes.start(API_SERVER)
        two_nodes.wait_ready()
    cluster_of(flow).wait_state(flow.job, "RUNNING")
    flow.wait_checkpoint()
    flow.settle()
