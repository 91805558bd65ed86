"""A session cluster on YARN runs a job exactly once: containers are killed, attempts follow each other, and nothing is
left at the end.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, exact_flow
from support.processes.running import wait_until
from support.yarn.cluster import Yarn
from support.yarn.session import YarnSession

SLOTS = 2


@pytest.fixture(scope="module")
def cluster(yarn: Yarn, tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnSession]:
    session = YarnSession(yarn, tmp_path_factory.mktemp("s"), "flights")
    try:
        session.start()
        yield session
    finally:
        session.end()
    assert session.outcome() == "SUCCEEDED"


@pytest.fixture(scope="module")
def flow(cluster: YarnSession, broker: EmbeddedBroker) -> Iterator[Flow]:
    assert not cluster.workers(), "no job needs any"
    with exact_flow(cluster, broker, exactly_once=True) as running:
        yield running
    wait_until(lambda: not cluster.workers(), "all workers are released")


@pytest.mark.full
@pytest.mark.broker
def test_a_job_gets_the_containers_that_it_needs(cluster: YarnSession, flow: Flow) -> None:
    assert len(cluster.workers()) == SLOTS
    assert sorted(cluster.hosts_of(flow.job)) == cluster.workers()
    status = cluster.headrace("cluster", "status", "--target", "yarn", "--name", cluster.name, "--json")
    assert status.code == 0, status.err
    assert (status.json["application"], status.json["state"]) == (cluster.application, "RUNNING")


@pytest.mark.full
@pytest.mark.broker
def test_a_worker_that_is_killed_is_replaced(cluster: YarnSession, flow: Flow) -> None:
    with flow.recovering("worker's container killed"):
        cluster.kill_worker()
        flow.wait_other_attempt()
    wait_until(lambda: len(cluster.workers()) == SLOTS, "its substitute is there, and nothing else")


@pytest.mark.broker
def test_the_next_attempt_keeps_the_workers_of_one_that_is_killed(cluster: YarnSession, flow: Flow) -> None:
    before = cluster.workers()
    with flow.recovering("ApplicationMaster killed"):
        cluster.kill_coordinator()
    assert cluster.workers() == before
    assert len(cluster.coordinators()) == 1


@pytest.mark.full
@pytest.mark.broker
def test_a_jvm_that_is_killed_is_replaced_within_the_attempt(cluster: YarnSession, flow: Flow) -> None:
    attempt, coordinator, jvm = cluster.wait_state(flow.job, "RUNNING").attempt, cluster.coordinator(), cluster.jvm()
    os.kill(jvm, signal.SIGKILL)
    wait_until(lambda: list(cluster.processes("py4j.GatewayServer")) not in ([], [jvm]), "another JVM")
    done = cluster.headrace("rescale", flow.job, "--parallelism", "4")
    assert done.code == 0, done.err
    wait_until(lambda: len(cluster.workers()) == 4, "it has requested and started containers")
    assert cluster.coordinator() == coordinator
    assert cluster.wait_state(flow.job, "RUNNING").attempt > attempt
    flow.settle()
    done = cluster.headrace("rescale", flow.job, "--parallelism", str(SLOTS))
    assert done.code == 0, done.err
    wait_until(lambda: len(cluster.workers()) == SLOTS, "what is idle is released")
    flow.settle()


@pytest.mark.full
@pytest.mark.broker
def test_a_savepoint_and_what_the_job_logged(cluster: YarnSession, flow: Flow) -> None:
    done = cluster.headrace("savepoint", flow.job)
    assert done.code == 0, done.err
    assert str(cluster.ledger) in done.out
    logged = cluster.headrace("logs", flow.job)
    assert logged.code == 0, logged.err
    assert "RUNNING" in logged.out
    listed = cluster.headrace("list", "--coordinator", f"yarn://{cluster.name}")
    assert flow.job[:8] in listed.out, listed.err
