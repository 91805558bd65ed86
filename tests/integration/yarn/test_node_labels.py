"""Workers on the nodes that have a label, the coordinator on one that has none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import exact_flow
from support.hdfs.server import run_hadoop
from support.yarn.cluster import RM_ADMIN, Yarn, yarn_cluster
from support.yarn.session import YarnSession

pytestmark = [pytest.mark.full, pytest.mark.broker]

LABEL = "streams"
STEM = "yarn.scheduler.capacity"
QUEUES = {
    f"{STEM}.root.queues": "default",
    f"{STEM}.root.default.capacity": "100",
    f"{STEM}.maximum-am-resource-percent": "1.0",
    f"{STEM}.root.accessible-node-labels": LABEL,
    f"{STEM}.root.accessible-node-labels.{LABEL}.capacity": "100",
    f"{STEM}.root.default.accessible-node-labels": LABEL,
    f"{STEM}.root.default.accessible-node-labels.{LABEL}.capacity": "100",
}


@pytest.fixture
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    """Two nodes, the second of which has the label."""
    folder = tmp_path_factory.mktemp("labels")
    settings = {
        "yarn.node-labels.enabled": "true",
        "yarn.node-labels.fs-store.root-dir": (folder / "labels").as_uri(),
    }
    with yarn_cluster(folder / "c", nodes=2, settings=settings, queues=QUEUES) as running:
        run_hadoop(running.conf, RM_ADMIN, "-addToClusterNodeLabels", f"{LABEL}(exclusive=true)")
        node = running.node_ids()[1]
        run_hadoop(running.conf, RM_ADMIN, "-replaceLabelsOnNode", f"{node}={LABEL}")
        yield running


def test_workers_run_on_nodes_with_the_label(labelled: Yarn, broker: EmbeddedBroker, tmp_path: Path) -> None:
    cluster = YarnSession(labelled, tmp_path, "labelled")
    file = Path(cluster.description())
    described = json.loads(file.read_text())
    file.write_text(json.dumps({**described, "workers": {**described["workers"], "nodeLabel": LABEL}}))
    try:
        cluster.start_described(str(file))
        with exact_flow(cluster, broker, exactly_once=True) as flow:
            (of_coordinator,) = {node_of(path) for path in cluster.container_files("home/cluster")}
            of_workers = {node_of(path) for path in cluster.container_files("home/workers")}
            assert len(of_workers) == 1
            assert of_workers != {of_coordinator}
            with flow.recovering("worker's container killed"):
                cluster.kill_worker()
                flow.wait_other_attempt()
            assert {node_of(path) for path in cluster.container_files("home/workers")} == of_workers
    finally:
        cluster.end()


def node_of(path: Path) -> str:
    """The node that has the folder of a container."""
    return next(part for part in path.parts if part.startswith("local-"))
