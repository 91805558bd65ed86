"""The compose files of deploy/standalone, run as they are written by Docker Compose itself: the plugin of Docker, or
Debian's package `docker-compose`, which `.ci/run` installs.

The commit tier has an image that sees this machine's programs; the full tier builds the one of the page's Dockerfile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, exact_flow
from support.containers.compose import compose_command
from support.containers.compose_cluster import WORKERS, ComposeCluster, StandbyComposeCluster, compose_cluster
from support.containers.container_network import container_network
from support.containers.engine import leftovers
from support.containers.standalone_image import standalone_image
from support.kafka.broker import broker_config
from support.patience import BROKER_SESSION
from support.processes.running import wait_until

pytestmark = pytest.mark.broker
MOUNTED, BUILT = "mounted", "built"


@pytest.fixture(scope="module", params=[MOUNTED, pytest.param(BUILT, marks=pytest.mark.full)])
def image(
    engine: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str | None]:
    """None: one without programs."""
    compose_command()
    if request.param == MOUNTED:
        yield None
        return
    with standalone_image(tmp_path_factory.mktemp("image")) as built:
        yield built


@pytest.fixture(scope="module")
def broker(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """On this machine, at an address that containers reach."""
    config = broker_config(tmp_path_factory.mktemp("kafka"), settings=BROKER_SESSION)
    with container_network() as network, EmbeddedBroker(replace(config, host=network.gateway)) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(
    image: str | None, broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ComposeCluster]:
    # the broker, and its network, are there before and after it
    before = leftovers()
    with compose_cluster(ComposeCluster(tmp_path_factory.mktemp("c"), image)) as running:
        yield running
    assert set(leftovers()) <= set(before)


@pytest.fixture(scope="module")
def flow(cluster: ComposeCluster, broker: EmbeddedBroker) -> Iterator[Flow]:
    """Submitted from this machine; at the end it is drained, and the output is exact once more."""
    with exact_flow(cluster, broker, exactly_once=True) as running:
        yield running


def test_a_job_survives_a_killed_worker(cluster: ComposeCluster, flow: Flow) -> None:
    """It goes on with the other one, until the first is started by hand."""
    dead = cluster.busy_worker(flow.job)
    with flow.recovering("worker killed"):
        cluster.project.kill(dead)
        flow.wait_other_attempt()
        assert set(cluster.hosts_of(flow.job)) == {*WORKERS} - {dead}
        cluster.project.run("start", dead)
    cluster.wait_whole()


@pytest.mark.full
def test_a_worker_that_crashes_is_started_again(cluster: ComposeCluster, flow: Flow) -> None:
    with flow.recovering("worker crashed"):
        cluster.project.crash(cluster.busy_worker(flow.job))
        flow.wait_other_attempt()
    cluster.wait_whole()


@pytest.mark.full
def test_a_coordinator_that_crashes_is_started_again(cluster: ComposeCluster, flow: Flow) -> None:
    """The job goes on from what is in its volume."""
    with flow.recovering("coordinator crashed"):
        cluster.project.crash("coordinator")
        flow.wait_other_attempt()
    cluster.wait_whole()


def test_a_cluster_that_is_stopped_ends_in_order_and_goes_on(cluster: ComposeCluster, flow: Flow) -> None:
    with flow.recovering("cluster stopped"):
        cluster.stop()
        cluster.start()
        flow.wait_other_attempt()


@pytest.fixture
def standby_flow(image: str | None, broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flow]:
    """On the cluster of compose-ha.yaml, submitted by a worker's container."""
    with ExitStack() as stack:
        cluster = StandbyComposeCluster(tmp_path_factory.mktemp("ha"), image)
        stack.enter_context(compose_cluster(cluster))
        yield stack.enter_context(exact_flow(cluster, broker, exactly_once=True))


@pytest.mark.full
@pytest.mark.parametrize("image", [BUILT], indirect=True)
def test_a_standby_leads_after_a_killed_leader_and_all_end_in_order(standby_flow: Flow) -> None:
    flow, cluster = standby_flow, standby_flow.cluster
    assert isinstance(cluster, StandbyComposeCluster)
    before = cluster.leader()
    with flow.recovering("leader killed"):
        cluster.project.kill(before)
        wait_until(lambda: cluster.leader() != before, "a standby leads")
        flow.wait_other_attempt()
        cluster.project.run("start", before)
    wait_until(lambda: cluster.project.health(before) == "healthy", "the one that was killed stands by")
    assert "RUNNING" in cluster.headrace("list").out
    with flow.recovering("cluster stopped"):
        cluster.stop()
        cluster.start()
        flow.wait_other_attempt()
