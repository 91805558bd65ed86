"""Coordinators that a Lease of a real API server elects."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, exact_flow
from support.clusters.session import COORDINATOR, frozen, kill
from support.clusters.standbys import StandbyCluster, standby_cluster
from support.leadership.lease_api import LeaseApi, lease_api
from support.patience import SHORT_STANDBY_LEASES
from support.processes.running import wait_until

pytestmark = pytest.mark.full
LEASE = "cluster"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LeaseApi]:
    with lease_api(tmp_path_factory.mktemp("k")) as started:
        yield started


@pytest.fixture(scope="module")
def cluster(api: LeaseApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandbyCluster]:
    folder = tmp_path_factory.mktemp("s")
    with standby_cluster(
        folder,
        f"kubernetes:///{LEASE}",
        ("--ledger", str(folder / "shared")),
        times=SHORT_STANDBY_LEASES,
        environment=api.environment,
    ) as running:
        yield running


@pytest.fixture(scope="module")
def flow(cluster: StandbyCluster, broker: EmbeddedBroker) -> Iterator[Flow]:
    with exact_flow(cluster, broker, exactly_once=True) as running:
        yield running


def test_a_leader_that_is_killed(cluster: StandbyCluster, flow: Flow, api: LeaseApi) -> None:
    leader, term = cluster.leader(), cluster.term()
    holder = api.lease(LEASE).holder
    with flow.recovering("leader killed"):
        kill(leader)
        cluster.wait_later_term(term)
    assert api.lease(LEASE).holder not in {"", holder}
    cluster.start_coordinator("c3")


def test_a_leader_that_ends_gives_up_the_lease(cluster: StandbyCluster, flow: Flow) -> None:
    wait_until(lambda: len(cluster.processes(COORDINATOR)) == 2, "a standby")
    term = cluster.term()
    with flow.recovering("leader restarted"):
        cluster.restart(cluster.name_of(cluster.leader()))
        cluster.wait_later_term(term)


def test_a_leader_that_is_suspended_and_wakes_is_a_standby(cluster: StandbyCluster, flow: Flow) -> None:
    wait_until(lambda: len(cluster.processes(COORDINATOR)) == 2, "a standby")
    leader, term = cluster.leader(), cluster.term()
    with flow.recovering("leader suspended"), frozen(leader):
        cluster.wait_later_term(term)
        flow.wait_other_attempt()
        flow.wait_checkpoint()
    wait_until(lambda: cluster.health(leader) == "standby", "the same process is a standby")
    flow.settle()


def test_all_coordinators_while_the_api_server_hangs(cluster: StandbyCluster, flow: Flow, api: LeaseApi) -> None:
    """For longer than a lease: the leader gives up by its own clock, and one is elected when the server is back."""
    leader, term = cluster.leader(), cluster.term()
    with flow.recovering("API server hung"), api.hung():
        wait_until(lambda: cluster.health(leader) in {"", "standby"}, "the leader gives up")
    cluster.wait_later_term(term)
    assert len(cluster.processes(COORDINATOR)) == 2


def test_an_api_server_that_is_killed_for_longer_than_a_lease(
    cluster: StandbyCluster, flow: Flow, api: LeaseApi
) -> None:
    leader, term = cluster.leader(), cluster.term()
    with flow.recovering("API server killed"):
        api.kill()
        wait_until(lambda: cluster.health(leader) in {"", "standby"}, "the leader gives up")
        api.respawn()
    cluster.wait_later_term(term)
    assert len(cluster.processes(COORDINATOR)) == 2
