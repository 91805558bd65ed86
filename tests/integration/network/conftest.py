"""Two hosts with a worker each, coordinator and broker on a third, and one flow that is fed all the while."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, exact_flow
from support.clusters.network_hosts import HERE, Network, SpreadCluster, running_network, spread_cluster
from support.kafka.broker import broker_config
from support.patience import BROKER_SESSION


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    """Outlives what runs on it."""
    with running_network("a", "b") as running:
        yield running


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, network: Network) -> Iterator[EmbeddedBroker]:
    """Listens where the hosts reach it. Nobody kills it."""
    told = broker_config(tmp_path_factory.mktemp("kafka"), settings=BROKER_SESSION)
    config = replace(told, host=network.address(HERE))
    with EmbeddedBroker(config) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, network: Network) -> Iterator[SpreadCluster]:
    """Two slots on each host."""
    with spread_cluster(tmp_path_factory.mktemp("c"), network) as running:
        yield running


@pytest.fixture(scope="module")
def flow(cluster: SpreadCluster, broker: EmbeddedBroker) -> Iterator[Flow]:
    """With a slot on each host; at the end it is drained, and the output is exact once more."""
    with exact_flow(cluster, broker) as running:
        yield running
