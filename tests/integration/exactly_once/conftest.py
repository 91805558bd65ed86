"""One cluster, one worker, and a flow whose sinks are exactly-once and can be held at every step of a commit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, running_flow
from support.clusters.session import Cluster, running_cluster
from support.clusters.stopping_points import StoppingPoints
from support.kafka.open_transactions import require_none_open
from support.storage.postgres import postgres
from support.third_party_site import third_party_path

__all__ = ["postgres"]


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Ends with the folder's last module; nothing of it may be left then. Tests leave it whole."""
    folder = tmp_path_factory.mktemp("x")
    site = third_party_path(folder / "site")
    with running_cluster(folder, workers=1, slots=2, python_path=site) as running:
        yield running


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> StoppingPoints:
    """Where the flow's sinks stop."""
    return StoppingPoints(tmp_path_factory.mktemp("p") / "points")


@pytest.fixture(scope="module")
def flow(cluster: Cluster, broker: EmbeddedBroker, points: StoppingPoints) -> Iterator[Flow]:
    """Runs from the module's first test on; at the end it is drained, and then no transaction is open."""
    fields = f'points: "{points.folder}"'
    with running_flow(
        cluster, broker, exactly_once=True, sink="stopping_kafka", sink_fields=fields, interval="500ms"
    ) as running:
        running.submit()
        running.wait_checkpoint()
        running.settle()
        yield running
        running.finish()
        require_none_open(broker, running.job)
