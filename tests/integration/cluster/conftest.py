"""One cluster of two workers with two slots each, and for a module one flow that is fed all the while."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, exact_flow
from support.clusters.session import Cluster, running_cluster


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Ends with the folder's last module; nothing of it may be left then. Tests leave it whole.

    Nobody is lost here for being slow: whose processes stand still on purpose has a cluster of their own.
    """
    with running_cluster(tmp_path_factory.mktemp("c")) as running:
        yield running


@pytest.fixture(scope="module")
def flow(cluster: Cluster, broker: EmbeddedBroker) -> Iterator[Flow]:
    """Runs from the module's first test on; at the end it is drained, which closes every window."""
    with exact_flow(cluster, broker, exactly_once=True) as running:
        yield running
