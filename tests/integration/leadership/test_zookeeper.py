"""Leaders that a real ZooKeeper of three servers elects, over a ledger and checkpoints on S3."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, exact_flow
from support.clusters.session import COORDINATOR, frozen, kill
from support.clusters.standbys import StandbyCluster, standby_cluster
from support.kafka.open_transactions import require_none_left
from support.leadership.zookeeper import ZooKeeper, zookeeper
from support.patience import SHORT_STANDBY_LEASES
from support.processes.running import wait_until
from support.storage.s3_server import BUCKET, S3Server, s3_server

pytestmark = pytest.mark.full

SUSPENDED_S = 60.0
CHECKPOINTS = 5


@pytest.fixture(scope="module")
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture(scope="module")
def servers(stack: ExitStack, tmp_path_factory: pytest.TempPathFactory) -> ZooKeeper:
    return stack.enter_context(zookeeper(tmp_path_factory.mktemp("z"), servers=3))


@pytest.fixture(scope="module")
def storage(stack: ExitStack) -> S3Server:
    return stack.enter_context(s3_server())


@pytest.fixture(scope="module")
def cluster(
    stack: ExitStack, servers: ZooKeeper, storage: S3Server, tmp_path_factory: pytest.TempPathFactory
) -> StandbyCluster:
    folder = tmp_path_factory.mktemp("s")
    (folder / "key").write_text("the key of this deployment\n")
    return stack.enter_context(
        standby_cluster(
            folder,
            f"zookeeper://{servers.hosts}/cluster",
            ("--ledger", f"s3://{BUCKET}/ha", "--key-file", str(folder / "key")),
            times=SHORT_STANDBY_LEASES,
            environment=storage.environment(),
        )
    )


@pytest.fixture(scope="module")
def flow(cluster: StandbyCluster, broker: EmbeddedBroker) -> Iterator[Flow]:
    with exact_flow(cluster, broker, exactly_once=True) as running:
        yield running


def test_servers_that_elect_a_leader_of_their_own_change_nothing(
    cluster: StandbyCluster, flow: Flow, servers: ZooKeeper
) -> None:
    leader, term = cluster.leader(), cluster.term()
    attempt = cluster.client.status(flow.job).attempt
    killed = servers.leader()
    servers.servers[killed].kill()
    servers.servers[killed].wait()
    servers.wait_serving(2)
    flow.wait_checkpoint()
    servers.start(killed)
    servers.wait_serving(3)
    flow.settle()
    if cluster.term() == term:
        # its session was not interrupted for the time of a session
        assert cluster.leader() == leader
        assert cluster.client.status(flow.job).attempt == attempt


def test_a_leader_that_is_killed(cluster: StandbyCluster, flow: Flow) -> None:
    leader, term = cluster.leader(), cluster.term()
    with flow.recovering("leader killed"):
        kill(leader)
        cluster.wait_later_term(term)
    cluster.start_coordinator("c3")


def test_a_leader_that_is_suspended_for_a_minute_is_a_standby_when_it_wakes(
    cluster: StandbyCluster, flow: Flow, broker: EmbeddedBroker
) -> None:
    """Another one leads meanwhile; what the one that wakes still wants to do has no effect."""
    wait_until(lambda: len(cluster.processes(COORDINATOR)) == 2, "a standby")
    leader, term = cluster.leader(), cluster.term()
    woken_s = time.monotonic() + SUSPENDED_S
    with flow.recovering("leader suspended for a minute"), frozen(leader):
        cluster.wait_later_term(term)
        flow.wait_other_attempt()
        for _ in range(CHECKPOINTS):
            flow.wait_checkpoint()
        later, attempt = cluster.term(), cluster.wait_state(flow.job, "RUNNING").attempt
        wait_until(lambda: time.monotonic() >= woken_s, "the minute is over")
    wait_until(lambda: cluster.health(leader) == "standby", "the same process is a standby")
    flow.wait_checkpoint()
    flow.settle()
    assert cluster.term() == later
    assert cluster.wait_state(flow.job, "RUNNING").attempt == attempt
    require_none_left(broker, flow)


def test_all_coordinators_cut_off_from_the_election(cluster: StandbyCluster, flow: Flow, servers: ZooKeeper) -> None:
    """For longer than a session: the leader gives up by its own clock, and one is elected when servers are back."""
    term = cluster.term()
    leader = cluster.leader()
    with flow.recovering("servers suspended"), frozen(*(each.pid for each in servers.servers.values())):
        wait_until(lambda: cluster.health(leader) in {"", "standby"}, "the leader gives up")
    servers.wait_serving(3)
    cluster.wait_later_term(term)
    assert len(cluster.processes(COORDINATOR)) == 2
