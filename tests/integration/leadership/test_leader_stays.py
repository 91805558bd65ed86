"""A leader gives up for workers only if a standby could reach them: not for released ones, nor alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clusters.session import WORKER, kill
from support.clusters.standbys import StandbyCluster, standby_cluster
from support.patience import SHORT_STANDBY_LEASES
from support.processes.running import wait_until

LEASE_SECONDS = 1.0
"""So long after its last worker a leader used to give up."""
TIMES = {**SHORT_STANDBY_LEASES, "HEADRACE_LEASE": f"{LEASE_SECONDS:g}s", "HEADRACE_WORKER_LOST": "2s"}
RESOURCES = ("--resources", "local", "--worker-slots", "1", "--workers-max", "2", "--worker-idle", "1s")
JOB = """\
name: short
checkpoint: {interval: none}
sources: {numbers: {generator: {rows: 10, columns: {n: {sequence: {start: 1}}}}, schema: {n: int64}}}
sinks: {out: {from: numbers, print: {}}}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandbyCluster]:
    """One coordinator, whose workers come and go with its jobs."""
    with standby_cluster(
        tmp_path, f"file://{tmp_path}/shared", RESOURCES, coordinators=1, workers=0, times=TIMES
    ) as running:
        yield running


def run(cluster: StandbyCluster) -> None:
    (cluster.folder / "job.yaml").write_text(JOB)
    ended = cluster.headrace("submit", "job.yaml", "--wait")
    assert ended.code == 0, ended.err


def wait_idle(cluster: StandbyCluster) -> None:
    """Waits until there has been no worker for twice as long as a leader waits."""
    wait_until(lambda: not cluster.processes(WORKER), "its workers are released")
    begin = time.monotonic()
    wait_until(lambda: time.monotonic() - begin > 2 * LEASE_SECONDS, "a lease has passed")


def test_a_cluster_that_becomes_idle_keeps_its_leader(cluster: StandbyCluster) -> None:
    term = cluster.term()
    cluster.start_coordinator("standby")
    cluster.wait_whole()
    run(cluster)
    wait_idle(cluster)
    assert (cluster.term(), "leads no more" in cluster.log("c0")) == (term, False)
    assert len(cluster.client.jobs()) == 1


@pytest.mark.full
def test_a_leader_gives_up_for_lost_workers_once_there_is_a_standby(cluster: StandbyCluster) -> None:
    term = cluster.term()
    # a worker that nobody makes anew
    lost = cluster.start_worker("own", "--slots", "1")
    wait_until(lambda: len(cluster.client.cluster().workers) == 1, "it has joined")
    kill(lost)
    wait_until(lambda: not cluster.client.cluster().workers, "it is lost")
    wait_idle(cluster)
    assert (cluster.term(), "leads no more" in cluster.log("c0")) == (term, False), "nobody could reach more"
    cluster.start_coordinator("standby")
    cluster.wait_later_term(term)
    assert "all its workers are gone" in cluster.log("c0")
    cluster.wait_whole()
    # in its place: it takes its folder with it
    cluster.start()
    wait_until(lambda: len(cluster.client.cluster().workers) == 1, "it has joined again")
