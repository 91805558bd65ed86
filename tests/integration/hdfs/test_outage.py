"""A job whose NameNode dies and comes back: it goes on, exactly-once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, exact_flow
from support.clusters.session import Cluster, running_cluster
from support.hdfs.cluster import HdfsServers, hdfs_cluster
from support.processes.running import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.full]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServers]:
    with hdfs_cluster(tmp_path_factory.mktemp("hdfs")) as started:
        yield started


@pytest.fixture(scope="module")
def cluster(servers: HdfsServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as environment:
        for name, value in servers.environment().items():
            environment.setenv(name, value)
        with running_cluster(tmp_path_factory.mktemp("c")) as running:
            yield running


@pytest.fixture(scope="module")
def flow(cluster: Cluster, broker: EmbeddedBroker, servers: HdfsServers) -> Iterator[Flow]:
    with exact_flow(cluster, broker, storage=servers.url("checkpoints"), exactly_once=True) as running:
        yield running


def test_a_name_node_that_is_killed_and_started_again(cluster: Cluster, flow: Flow, servers: HdfsServers) -> None:
    """A checkpoint fails meanwhile, or waits: then they are taken again."""
    epoch = flow.epoch()
    servers.name_node.kill()
    wait_until(lambda: "no answer of NameNode" in _trouble(flow), "the job says what is wrong")
    servers.name_node.start()
    servers.wait_ready()
    wait_until(lambda: flow.epoch() > epoch, "a checkpoint after that")
    flow.settle()
    cluster.wait_state(flow.job, "RUNNING")


def _trouble(flow: Flow) -> str:
    """What the job says of its storage, now or as a failure."""
    status = flow.cluster.status(flow.job)
    return "" if status is None else f"{status.message} {status.failure}"
