"""Clusters of these tests; `support.suite.shared_kubernetes` has the control plane that all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.kubernetes.control.cluster import ControlCluster, control_cluster
from support.kubernetes.nodes.cluster import NodeCluster, node_cluster


@pytest.fixture(scope="module")
def own_control_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlCluster]:
    """A control plane whose servers the tests of a file may kill and suspend, if each starts them again."""
    with control_cluster(tmp_path_factory.mktemp("k")) as running:
        yield running


@pytest.fixture(scope="package")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    """A cluster with one node, where pods run. Nobody kills the node."""
    with node_cluster(tmp_path_factory.mktemp("n")) as running:
        yield running


@pytest.fixture
def pod_namespace(nodes: NodeCluster) -> Iterator[str]:
    """A new namespace of the cluster with a node."""
    with nodes.namespace() as name:
        yield name


@pytest.fixture
def two_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    """A cluster with two nodes, which the test may kill and cut off."""
    with node_cluster(tmp_path_factory.mktemp("n"), nodes=2) as running:
        yield running
