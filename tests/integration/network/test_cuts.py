"""A network that is cut, and heals: around one worker, between two of them, around the coordinator.

Slots on both hosts hash rows to each other; but for the first test the job has more of them than one host. However
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

WIDE = 3
LEASE_IS_OVER = ("no beat of", "no heartbeat for", "no word of the coordinator")
"""Words of who ends because somebody stood still."""


def widened(cluster: SpreadCluster, flow: Flow) -> None:
    """The job has more slots than one host has: one of two may start again on one host alone, which no cut touches."""
    if cluster.client.status(flow.job).parallelism < WIDE:
        done = cluster.headrace("rescale", flow.job, "--parallelism", str(WIDE))
        assert done.code == 0, done.err
        flow.wait_checkpoint()


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
    widened(cluster, flow)
    wait_rows_cross(cluster, network, flow)

    with flow.recovering(what):
        before = cluster.client.status(flow.job).attempt
        with cut:
            wait_until(lambda: cluster.client.status(flow.job).attempt > before, "the job starts again")
            failures = [each.message for each in cluster.client.exceptions(flow.job) if each.attempt == before]
            noticed = any("the connection to slot" in each and "was lost" in each for each in failures)
            # slots tell it after seconds of silence, and in these a lease may run out on a slow host
            assert noticed or any(word in each for each in failures for word in LEASE_IS_OVER), failures
            wait_until(lambda: cluster.state(flow.job) == "DEPLOYING", "the next attempt waits for the network")
            wait_until(lambda: len(cluster.client.cluster().workers) == 2, "both workers reach the coordinator")

    wait_rows_cross(cluster, network, flow)


@pytest.mark.full
def test_around_a_worker(cluster: SpreadCluster, network: Network, flow: Flow) -> None:
    """Its slots end by themselves, the other host's take over, and it joins again when the network is back."""
    with flow.recovering("worker cut off"):
        # chosen here: where a lease ran out on a slow host, the job may be on one of them alone
        wait_until(lambda: bool(cluster.hosts_of(flow.job)), "slots run it")
        name, other = ("b", "a") if "b" in cluster.hosts_of(flow.job) else ("a", "b")
        worker = cluster.worker_of(name)
        slots = cluster.busy_slots(flow.job, worker)
        with network.unplugged(name, DATA, CONTROL):
            wait_gone(*slots)
            flow.wait_other_attempt()
            flow.wait_checkpoint()
            wait_until(lambda: cluster.hosts_of(flow.job) == {other: 2}, "all of it is on the other host")

    assert cluster.worker_of(name) == worker
    wait_until(lambda: len(cluster.client.cluster().workers) == 2, "it has joined again")
    widened(cluster, flow)
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
