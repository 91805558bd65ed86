"""The templates of deploy/yarn: a cluster of YARN with these settings and queues, and a cluster of headrace there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import exact_flow
from support.hadoop.settings import read_settings
from support.yarn.cluster import Yarn, yarn_cluster
from support.yarn.session import YarnSession
from support.yarn.templates import TEMPLATES

pytestmark = [pytest.mark.full, pytest.mark.broker]
OF_THIS_TEST = ("ledger", "environment")
"""Fields of the description that name places of the user's cluster."""


@pytest.fixture
def templated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    settings = read_settings(TEMPLATES / "yarn-site.xml")
    queues = read_settings(TEMPLATES / "capacity-scheduler.xml")
    with yarn_cluster(tmp_path_factory.mktemp("t") / "c", nodes=2, settings=settings, queues=queues) as running:
        yield running


def test_a_cluster_of_the_templates(templated: Yarn, broker: EmbeddedBroker, tmp_path: Path) -> None:
    described = YAML(typ="safe").load((TEMPLATES / "cluster.yaml").read_text())
    own = {name: value for name, value in described.items() if name not in OF_THIS_TEST}
    # the nodes of the test are smaller than those of a cluster
    own["workers"] = {**own["workers"], "memory": "1Gi", "vcores": 1, "idle": "1s"}
    cluster = YarnSession(templated, tmp_path, "flights")
    file = Path(cluster.description())
    file.write_text(json.dumps({**json.loads(file.read_text()), **own}))
    try:
        cluster.start_described(str(file))
        (application,) = templated.applications()
        assert (application["queue"], application["state"]) == ("root.streaming", "RUNNING")
        with exact_flow(cluster, broker, exactly_once=True) as flow, flow.recovering("ApplicationMaster killed"):
            cluster.kill_coordinator()
    finally:
        cluster.end()
    assert cluster.outcome() == "SUCCEEDED"
