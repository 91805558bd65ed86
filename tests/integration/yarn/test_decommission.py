"""A node that is decommissioned in order: jobs take a checkpoint and move, then its workers end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import exact_flow
from support.hdfs.server import run_hadoop
from support.processes.running import wait_until
from support.yarn.cluster import RM_ADMIN, Yarn, yarn_cluster
from support.yarn.session import YarnSession

pytestmark = [pytest.mark.full, pytest.mark.broker]

EXCLUDED = "excluded-nodes.xml"
PATIENCE_SECONDS = 3_600
"""YARN gives the node up after so long, whatever runs there."""


@pytest.fixture
def decommissioning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    """Two nodes of different names, so that one can be excluded."""
    folder = tmp_path_factory.mktemp("decommission")
    (folder / EXCLUDED).write_text("<hosts></hosts>")
    settings = {"yarn.resourcemanager.nodes.exclude-path": str(folder / EXCLUDED)}
    with yarn_cluster(folder / "c", nodes=2, settings=settings, hosts=("127.0.0.1", "127.0.0.2")) as running:
        yield running


def test_the_workers_of_a_node_that_is_decommissioned_move(
    decommissioning: Yarn, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    cluster = YarnSession(decommissioning, tmp_path, "leaving")
    try:
        cluster.start()
        with exact_flow(cluster, broker, exactly_once=True) as flow:
            before = cluster.workers()
            on_node = workers_by_node(cluster)
            (of_coordinator,) = {node_of(path) for path in cluster.container_files("home/cluster")}
            leaving = next((node for node in on_node if node != of_coordinator), of_coordinator)
            failures = len(cluster.client.exceptions(flow.job))
            host = "127.0.0.1" if leaving == "local-0" else "127.0.0.2"
            excluded = f"<hosts><host><name>{host}</name><timeout>{PATIENCE_SECONDS}</timeout></host></hosts>"
            (decommissioning.folder.parent / EXCLUDED).write_text(excluded)
            run_hadoop(decommissioning.conf, RM_ADMIN, "-refreshNodes", "-g", str(PATIENCE_SECONDS), "-server")
            wait_until(lambda: leaving not in workers_by_node(cluster), "its workers have left")
            wait_until(lambda: len(cluster.workers()) == len(before), "as many run elsewhere")
            flow.settle()
            assert len(cluster.client.exceptions(flow.job)) == failures, "nothing has failed"
    finally:
        cluster.end()


def workers_by_node(cluster: YarnSession) -> set[str]:
    """The nodes that have workers."""
    running = set(cluster.workers())
    return {node_of(path) for path in cluster.container_files("home/workers/*") if path.name in running}


def node_of(path: Path) -> str:
    """The node that has the folder of a container."""
    return next(part for part in path.parts if part.startswith("local-"))
