"""A network that is cut, and heals: around one worker, between two of them, around the coordinator.

Slots on both hosts hash rows to each other; the first test leaves the job with more of them than one host has. However
long a cut lasts, the rows in the end are exactly those of the reference. The commit tier cuts between two workers; for
the leases of both sides it has cluster/test_freezes.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import pytest

from support.clusters.kafka_flow import Flow
from support.clusters.network_hosts import CONTROL, DATA, HERE, Network, SpreadCluster
from support.clusters.session import wait_gone
from support.processes.running import wait_until

pytestmark = pytest.mark.broker


def wait_rows_cross(cluster: SpreadCluster, network: Network, flow: Flow) -> None:
    """Slots on both hosts, and a connection from each of them to each one over there."""

    def cross() -> bool:
        slots = cluster.hosts_of(flow.job)
        return set(slots) == {"a", "b"} and network.connections("a", "b") == 2 * slots["a"] * slots["b"]

    # slots of the attempt before may have connections for a moment more
    wait_until(cross, "rows go from each host to the other")


def cut_between_workers(
    cluster: SpreadCluster, network: Network, flow: Flow, what: str, cut: AbstractContextManager[None]
) -> None:
    """Both reach coordinator and broker all the while: only slots can notice, and no attempt runs until it heals."""
    wait_rows_cross(cluster, network, flow)
    before = cluster.client.status(flow.job).attempt

    with flow.recovering(what), cut:
        wait_until(lambda: cluster.client.status(flow.job).attempt > before, "the job starts again")
        failures = [each.message for each in cluster.client.exceptions(flow.job) if each.attempt == before]
        assert any("the connection to slot" in each and "was lost" in each for each in failures), failures
        wait_until(lambda: cluster.state(flow.job) == "DEPLOYING", "the next attempt waits for the network")
        assert len(cluster.client.cluster().workers) == 2, "no worker is lost"

    wait_rows_cross(cluster, network, flow)


@pytest.mark.full
def test_around_a_worker(cluster: SpreadCluster, network: Network, flow: Flow) -> None:
    """Its slots end by themselves, the other host's take over, and it joins again when the network is back."""
    wait_rows_cross(cluster, network, flow)
    worker = cluster.worker_of("b")
    slots = cluster.busy_slots(flow.job, worker)

    with flow.recovering("worker cut off"), network.unplugged("b", DATA, CONTROL):
        wait_gone(*slots)
        flow.wait_other_attempt()
        flow.wait_checkpoint()
        wait_until(lambda: cluster.hosts_of(flow.job) == {"a": 2}, "all of it is on the other host")

    assert cluster.worker_of("b") == worker
    wait_until(lambda: len(cluster.client.cluster().workers) == 2, "it has joined again")
    done = cluster.headrace("rescale", flow.job, "--parallelism", "3")
    assert done.code == 0, done.err
    flow.wait_checkpoint()
    wait_rows_cross(cluster, network, flow)


def test_between_two_workers(cluster: SpreadCluster, network: Network, flow: Flow) -> None:
    cut_between_workers(cluster, network, flow, "cut between workers", network.apart())


@pytest.mark.full
def test_between_two_workers_one_way(cluster: SpreadCluster, network: Network, flow: Flow) -> None:
    cut_between_workers(cluster, network, flow, "cut between workers, one way", network.one_way("a", "b"))


@pytest.mark.full
def test_between_a_worker_and_the_coordinator(cluster: SpreadCluster, network: Network, flow: Flow) -> None:
    """Rows could still go everywhere: its slots end all the same. The job waits, for the other host has too few."""
    slots = cluster.busy_slots(flow.job, cluster.worker_of("b"))

    with flow.recovering("worker cut off from the coordinator"), network.unplugged("b", CONTROL):
        wait_gone(*slots)
        wait_until(lambda: len(cluster.client.cluster().workers) == 1, "it is lost")
        wait_until(lambda: cluster.state(flow.job) == "SCHEDULING", "the job waits for slots")

    wait_rows_cross(cluster, network, flow)


@pytest.mark.full
def test_around_the_coordinator(cluster: SpreadCluster, network: Network, flow: Flow) -> None:
    """The attempt that nobody masters ends; nothing runs until the workers are back."""
    coordinator, slots = cluster.coordinator(), flow.slots()

    with flow.recovering("coordinator cut off"), network.unplugged(HERE, CONTROL):
        wait_gone(*slots)
        wait_until(lambda: not cluster.client.cluster().workers, "all workers are lost")

    assert cluster.coordinator() == coordinator
    wait_rows_cross(cluster, network, flow)
