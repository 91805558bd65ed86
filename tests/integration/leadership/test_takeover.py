"""A standby takes over from a leader that is killed, suspended or gone: jobs go on, each row once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, exact_flow
from support.clusters.session import COORDINATOR, frozen, kill
from support.clusters.standbys import StandbyCluster, standby_cluster
from support.patience import SHORT_STANDBY_LEASES
from support.processes.running import wait_until

pytestmark = pytest.mark.turns(4)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandbyCluster]:
    folder = tmp_path_factory.mktemp("s")
    with standby_cluster(folder, f"file://{folder}/shared", times=SHORT_STANDBY_LEASES) as running:
        yield running


@pytest.fixture(scope="module")
def flow(cluster: StandbyCluster, broker: EmbeddedBroker) -> Iterator[Flow]:
    with exact_flow(cluster, broker, exactly_once=True) as running:
        yield running


def test_a_leader_that_is_killed(cluster: StandbyCluster, flow: Flow) -> None:
    leader, term = cluster.leader(), cluster.term()
    with flow.recovering("leader killed"):
        kill(leader)
        cluster.wait_later_term(term)
    cluster.start_coordinator("c3")


def test_a_leader_that_is_suspended_and_wakes_is_a_standby(cluster: StandbyCluster, flow: Flow) -> None:
    wait_until(lambda: len(cluster.processes(COORDINATOR)) == 2, "a standby")
    leader, term = cluster.leader(), cluster.term()
    with flow.recovering("leader suspended"), frozen(leader):
        cluster.wait_later_term(term)
        flow.wait_other_attempt()
        flow.wait_checkpoint()
    # it woke in the midst of the job's next attempt, and is the same process
    wait_until(lambda: cluster.health(leader) == "standby", "the one that woke is a standby")
    assert cluster.leader() != leader
    flow.wait_checkpoint()
    flow.settle()


def test_a_standby_that_could_never_lead_ends_and_says_why(cluster: StandbyCluster, tmp_path: Path) -> None:
    term = cluster.term()
    (tmp_path / "key").write_text("the key of another deployment\n")
    stranger = cluster.start_coordinator("stranger", "--key-file", str(tmp_path / "key"))
    assert cluster.ended(stranger) == 1
    said = cluster.log("stranger")
    assert f"another key than the one in {tmp_path / 'key'}" in said
    assert "Traceback" not in said
    assert cluster.term() == term


def test_users_reach_the_leader_through_any_coordinator(cluster: StandbyCluster, flow: Flow) -> None:
    wait_until(lambda: len(cluster.processes(COORDINATOR)) == 2, "a standby")
    leader = cluster.leader()
    (standby,) = cluster.processes(COORDINATOR).keys() - {leader}
    wait_until(lambda: cluster.health(standby) == "standby", "the standby answers")
    url = cluster.url(standby)
    assert url is not None
    listed = cluster.headrace("list", "--coordinator", url, "--json")
    assert [each["job_id"] for each in listed.json["jobs"]] == [flow.job]
