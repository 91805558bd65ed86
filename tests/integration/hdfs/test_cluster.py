"""A cluster whose ledger, checkpoints and savepoints are on HDFS: each row once, whoever dies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, exact_flow
from support.clusters.session import kill
from support.clusters.standbys import StandbyCluster, standby_cluster
from support.clusters.worker_process import parent_of
from support.hdfs.cluster import Hdfs
from support.patience import SHORT_STANDBY_LEASES

pytestmark = [pytest.mark.broker, pytest.mark.turns(3, of="files")]


@pytest.fixture(scope="module")
def cluster(hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandbyCluster]:
    folder = tmp_path_factory.mktemp("s")
    (folder / "key").write_text("the key of this deployment\n")
    with standby_cluster(
        folder,
        f"file://{folder}/shared",
        ("--ledger", hdfs.url("prod"), "--key-file", str(folder / "key")),
        times=SHORT_STANDBY_LEASES,
        environment=hdfs.environment(),
    ) as running:
        yield running


@pytest.fixture(scope="module")
def flow(cluster: StandbyCluster, broker: EmbeddedBroker) -> Iterator[Flow]:
    with exact_flow(cluster, broker, exactly_once=True) as running:
        yield running


def test_its_files_are_where_they_should_be(cluster: StandbyCluster, flow: Flow, hdfs: Hdfs) -> None:
    checkpoint = cluster.client.status(flow.job).checkpoint
    assert checkpoint is not None
    assert checkpoint.path.startswith(hdfs.url(f"prod/checkpoints/{flow.job}/journal/"))
    listed = hdfs.ask("GET", f"/prod/checkpoints/{flow.job}", "LISTSTATUS")
    assert '"pathSuffix": "state"' in str(listed).replace("'", '"')
    done = cluster.headrace("state", "list", checkpoint.path, "--json")
    assert done.code == 0, done.err
    assert "per_key" in done.out


@pytest.mark.full
def test_a_worker_that_is_killed(cluster: StandbyCluster, flow: Flow) -> None:
    with flow.recovering("worker killed"):
        kill(parent_of(flow.slots()[0]))
        cluster.start_again()


@pytest.mark.full
def test_a_leader_that_is_killed(cluster: StandbyCluster, flow: Flow) -> None:
    leader, term = cluster.leader(), cluster.term()
    with flow.recovering("leader killed"):
        kill(leader)
        cluster.wait_later_term(term)
    cluster.start_again()


def test_stopped_with_a_savepoint_and_taken_up_from_it(cluster: StandbyCluster, flow: Flow, hdfs: Hdfs) -> None:
    path = flow.stop("--savepoint", hdfs.url("saved"))
    assert path.startswith(hdfs.url(f"saved/savepoint-{flow.job}-"))
    flow.go_on(path.replace(hdfs.url(""), hdfs.web_url("")), parallelism=1)
    assert cluster.client.status(flow.job).parallelism == 1
