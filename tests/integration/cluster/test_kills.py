"""kill -9 of each process of a cluster: the job runs on from its last checkpoint, and nothing is lost or repeated.

The commit tier kills workers and coordinators at every step of a commit (exactly_once/test_crash_points), and a slot
alone in exactly_once/test_files_and_tables.
"""

from __future__ import annotations

import pytest

from support.clusters.kafka_flow import Flow
from support.clusters.session import Cluster, kill
from support.clusters.worker_process import parent_of
from support.processes.running import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.turns(3, of="files")]


@pytest.mark.full
def test_a_slot(cluster: Cluster, flow: Flow) -> None:
    with flow.recovering("slot killed"):
        kill(flow.slots()[0])


@pytest.mark.full
def test_a_worker_that_is_started_again(cluster: Cluster, flow: Flow) -> None:
    worker = parent_of(flow.slots()[0])
    number = 1 if cluster.worker(1) == worker else 2
    slots = cluster.slots(worker)

    with flow.recovering("worker killed"):
        kill(worker)
        wait_until(lambda: not set(slots) & set(cluster.slots()), "its slots end with it")
        cluster.start_again()

    assert cluster.worker(number) != worker
    wait_until(lambda: len(cluster.slots()) == 4, "all slots are there")


def test_a_worker_that_stays_away(cluster: Cluster, flow: Flow) -> None:
    """The other one's slots take over."""
    with flow.recovering("worker killed, not started again"):
        kill(parent_of(flow.slots()[0]))

    cluster.start_again()


@pytest.mark.full
def test_the_coordinator(cluster: Cluster, flow: Flow) -> None:
    workers = [cluster.worker(1), cluster.worker(2)]

    with flow.recovering("coordinator killed"):
        kill(cluster.coordinator())
        cluster.start_again()

    assert [cluster.worker(1), cluster.worker(2)] == workers


def test_the_connector_host(cluster: Cluster, flow: Flow) -> None:
    with flow.recovering("connector host killed"):
        kill(*cluster.connector_hosts())


@pytest.mark.full
def test_all_at_once(cluster: Cluster, flow: Flow) -> None:
    with flow.recovering("all killed"):
        kill(*cluster.processes())
        cluster.start_again()
