"""All hosts are lost, with the folder that they shared: its back-up has ledger, key and checkpoints, and jobs go on."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, exact_flow
from support.clusters.session import COORDINATOR, kill
from support.clusters.standbys import StandbyCluster, standby_cluster
from support.processes.running import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.full]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandbyCluster]:
    with standby_cluster(tmp_path / "s", f"file://{tmp_path}/shared") as running:
        yield running


@pytest.fixture
def flow(cluster: StandbyCluster, broker: EmbeddedBroker) -> Iterator[Flow]:
    with exact_flow(cluster, broker, exactly_once=True) as running:
        yield running


def test_a_back_up_of_a_shared_folder_is_recovered(cluster: StandbyCluster, flow: Flow, tmp_path: Path) -> None:
    with flow.recovering("recovered"):
        for pid in cluster.processes(COORDINATOR):
            os.kill(pid, signal.SIGTERM)
            assert cluster.ended(pid) == 0
        # slots may still give up what they had begun to write
        shutil.copytree(tmp_path / "shared", tmp_path / "backup", ignore=shutil.ignore_patterns(".tmp-*"))
        kill(*cluster.processes())
        shutil.rmtree(tmp_path / "shared")
        # with all that the processes of these hosts had
        for folder in (cluster.home, *cluster.temporary.iterdir()):
            shutil.rmtree(folder)

        shutil.copytree(tmp_path / "backup", tmp_path / "shared")
        for name in ("new-1", "new-2"):
            cluster.start_coordinator(name)
        cluster.leader()
        wait_until(lambda: cluster.state(flow.job) == "SCHEDULING", "the job is known, and waits for slots")
        # before any worker could write: the output is what the newest checkpoint of the back-up says
        audit = cluster.headrace("audit", flow.job)
        assert audit.code == 0, audit.out + audit.err
        assert "proven" in audit.out
        for name in ("new-3", "new-4"):
            cluster.start_worker(name)
    assert {each.worker for each in cluster.client.cluster().workers} == {"new-3", "new-4"}
