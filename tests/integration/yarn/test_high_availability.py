"""Two ResourceManagers: the active one is killed below a job, and all goes on when the other one is active."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import exact_flow
from support.processes.running import wait_until
from support.yarn.cluster import Yarn, yarn_cluster
from support.yarn.session import YarnSession

pytestmark = [pytest.mark.full, pytest.mark.broker]


@pytest.fixture
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with yarn_cluster(tmp_path_factory.mktemp("pair") / "c", nodes=2, standby=True) as running:
        yield running


def test_the_active_resource_manager_is_killed_below_a_job(pair: Yarn, broker: EmbeddedBroker, tmp_path: Path) -> None:
    cluster = YarnSession(pair, tmp_path, "failed-over")
    try:
        cluster.start()
        with exact_flow(cluster, broker, exactly_once=True) as flow:
            coordinator, workers, first = cluster.coordinator(), cluster.workers(), pair.active()
            assert first is not None
            pair.managers[first].kill()
            # nobody is active: rows flow all the same
            flow.settle()
            pair.activate(1)
            wait_until(lambda: pair.nodes() == 2, "the nodes have found it")
            flow.settle()
            # the client finds it too, and the ApplicationMaster is granted containers by it
            done = cluster.headrace("rescale", flow.job, "--parallelism", "4")
            assert done.code == 0, done.err
            wait_until(lambda: len(cluster.workers()) == 4, "it grants containers")
            assert set(workers) < set(cluster.workers())
            assert cluster.coordinator() == coordinator
            flow.settle()
            kept = cluster.workers()
            with flow.recovering("ApplicationMaster killed"):
                cluster.kill_coordinator()
            assert cluster.workers() == kept, "it knows the containers that the other one had granted"
    finally:
        cluster.end()
    assert cluster.outcome() == "SUCCEEDED"
