"""A cluster that makes its own workers, as processes: as many as its jobs need, replaced, handed over, released."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, exact_flow, running_flow
from support.clusters.session import COORDINATOR, WORKER, kill, wait_gone
from support.clusters.standbys import StandbyCluster, standby_cluster
from support.patience import SHORT_ORPHAN, STANDBY_TIMES
from support.processes.running import wait_until

pytestmark = pytest.mark.turns(3, of="files")

SLOTS = 2
RESOURCES = ("--resources", "local", "--worker-slots", "1", "--workers-max", "4", "--worker-idle", "1s")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandbyCluster]:
    folder = tmp_path_factory.mktemp("s")
    election = f"file://{folder}/shared"
    # one: workers are processes of the host whose coordinator has started them
    times = {**STANDBY_TIMES, "HEADRACE_DRAIN": "60s"}
    with standby_cluster(folder, election, RESOURCES, coordinators=1, workers=0, times=times) as running:
        yield running


@pytest.fixture(scope="module")
def flow(cluster: StandbyCluster, broker: EmbeddedBroker) -> Iterator[Flow]:
    assert not cluster.processes(WORKER), "no job needs any"
    with exact_flow(cluster, broker, exactly_once=True) as running:
        yield running
    # its slots go back, and with them the workers
    wait_until(lambda: not cluster.processes(WORKER), "all workers are released")


@pytest.mark.full
def test_a_job_gets_the_workers_that_it_needs(cluster: StandbyCluster, flow: Flow) -> None:
    assert len(cluster.processes(WORKER)) == SLOTS
    assert cluster.hosts_of(flow.job).keys() == {each.worker for each in cluster.client.cluster().workers}
    info = cluster.client.cluster().provisioning
    assert info is not None
    assert (info.slots_max, info.expected, info.trouble) == (4, (), None)


@pytest.mark.full
def test_a_worker_that_is_killed_is_replaced(cluster: StandbyCluster, flow: Flow) -> None:
    before = cluster.processes(WORKER)
    with flow.recovering("worker killed"):
        kill(next(iter(before)))
        flow.wait_other_attempt()
    wait_until(lambda: len(cluster.processes(WORKER)) == SLOTS, "its substitute is there, and nothing else")


def test_a_worker_that_is_to_end_hands_its_jobs_over_first(cluster: StandbyCluster, flow: Flow) -> None:
    """As at the eviction of a pod, or the drain of a node."""
    failures = len(cluster.client.exceptions(flow.job))
    leaving = next(iter(cluster.processes(WORKER)))
    with flow.recovering("worker drained"):
        os.kill(leaving, signal.SIGTERM)
        flow.wait_other_attempt()
    wait_gone(leaving)
    assert len(cluster.client.exceptions(flow.job)) == failures, "the job has moved from a checkpoint, and not failed"
    wait_until(lambda: len(cluster.processes(WORKER)) == SLOTS, "its substitute is there, and nothing else")


def test_the_next_coordinator_takes_the_workers_over(cluster: StandbyCluster, flow: Flow) -> None:
    before, term = cluster.processes(WORKER), cluster.term()
    with flow.recovering("coordinator killed"):
        kill(cluster.leader())
        cluster.start()
        cluster.wait_later_term(term)
    assert cluster.processes(WORKER) == before


def test_a_job_that_is_rescaled_gets_more_workers_and_gives_them_back(cluster: StandbyCluster, flow: Flow) -> None:
    done = cluster.headrace("rescale", flow.job, "--parallelism", "4")
    assert done.code == 0, done.err
    cluster.wait_state(flow.job, "RUNNING")
    assert sum(cluster.hosts_of(flow.job).values()) == 4
    flow.settle()
    refused = cluster.headrace("rescale", flow.job, "--parallelism", "5")
    assert refused.code == 2
    assert "the cluster has 4" in refused.err
    done = cluster.headrace("rescale", flow.job, "--parallelism", str(SLOTS))
    assert done.code == 0, done.err
    wait_until(lambda: len(cluster.processes(WORKER)) == SLOTS, "two workers are released")
    cluster.wait_state(flow.job, "RUNNING")
    flow.settle()


@pytest.mark.full
def test_a_job_that_waits_says_what_keeps_its_workers_from_coming(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """The folder of the workers is a file at first."""
    with standby_cluster(
        tmp_path, f"file://{tmp_path}/shared", RESOURCES, coordinators=1, workers=0, times=STANDBY_TIMES
    ) as cluster:
        in_the_way = cluster.home / "c0" / "workers"
        in_the_way.write_text("")
        with running_flow(cluster, broker, name="waits") as flow:
            done = cluster.headrace("submit", flow.file())
            assert done.code == 0, done.err
            job = done.out.strip()

            def says_why() -> bool:
                return "cannot be started" in cluster.headrace("status", job).out

            wait_until(says_why, "the job's status says why it waits")
            assert "workers" in cluster.headrace("status", job).out
            in_the_way.unlink()
            cluster.wait_state(job, "RUNNING")
            trouble = cluster.client.cluster().provisioning
            assert trouble is not None and trouble.trouble is None
            done = cluster.headrace("cancel", job)
            assert done.code == 0, done.err
        wait_until(lambda: not cluster.processes(WORKER), "all workers are released")


def test_the_end_of_the_cluster_is_the_end_of_its_workers(broker: EmbeddedBroker, tmp_path: Path) -> None:
    with standby_cluster(
        tmp_path,
        f"file://{tmp_path}/shared",
        (*RESOURCES[:-1], "1h", "--workers-min", "1"),
        coordinators=1,
        workers=0,
        times=STANDBY_TIMES,
    ) as cluster:
        wait_until(lambda: len(cluster.client.cluster().workers) == 1, "the worker that stays without a job")
        workers, coordinators = list(cluster.processes(WORKER)), list(cluster.processes(COORDINATOR))
        cluster.client.shutdown()
        wait_gone(*coordinators, *workers)


def test_workers_end_by_themselves_when_nothing_else_ends_them(tmp_path: Path) -> None:
    """The last coordinator is killed, and no other one follows."""
    always = (*RESOURCES, "--workers-min", "1")
    election, times = f"file://{tmp_path}/shared", {**STANDBY_TIMES, "HEADRACE_ORPHAN": SHORT_ORPHAN}
    with standby_cluster(tmp_path, election, always, coordinators=1, workers=0, times=times) as cluster:
        wait_until(lambda: len(cluster.client.cluster().workers) == 1, "the worker that stays without a job")
        kill(cluster.leader())
        wait_until(lambda: not cluster.processes(WORKER), "the worker has given up")
