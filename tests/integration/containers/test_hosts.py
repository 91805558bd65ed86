"""A coordinator and two workers, each in a container of its own, and one flow from and to brokers in others.

A wire between the workers is taken away, a worker stands still past its lease, a host dies: the rows in the end are
exactly those of the reference, and nothing is left behind.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.clusters.kafka_flow import Flow, exact_flow
from support.containers.engine import leftovers
from support.containers.hosts import HostContainers, host_containers
from support.containers.kafka import KafkaContainers
from support.processes.running import wait_until

WORKERS, SLOTS = 2, 4


@pytest.fixture(scope="module")
def kafka(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaContainers]:
    """One broker, which nothing happens to."""
    with KafkaContainers(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="module")
def hosts(kafka: KafkaContainers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostContainers]:
    """Two slots on each of two workers; at the end all have left in order, and their containers are gone."""
    before = leftovers()
    with host_containers(tmp_path_factory.mktemp("c"), others=[kafka.network]) as running:
        yield running
    assert leftovers() == before


@pytest.fixture(scope="module")
def flow(hosts: HostContainers, kafka: KafkaContainers) -> Iterator[Flow]:
    """With a slot on each worker; at the end it is drained, and the output is exact once more."""
    storage = str(hosts.checkpoints)
    with exact_flow(hosts, kafka, storage=storage, job_brokers=kafka.bootstrap_inside) as running:
        yield running


def busy_host(hosts: HostContainers, flow: Flow) -> str:
    """A worker that runs a part of the job."""
    wait_until(lambda: bool(hosts.hosts_of(flow.job)), "it runs somewhere")
    return min(hosts.hosts_of(flow.job))


def wait_whole(hosts: HostContainers) -> None:
    """Both workers are there, with all of their slots."""

    def whole() -> bool:
        cluster = hosts.client.cluster()
        return len(cluster.workers) == WORKERS and cluster.slots_free == SLOTS - 2

    wait_until(whole, "both workers have all of their slots")


@pytest.mark.full  # `network/test_cuts` cuts it between namespaces
def test_the_wire_between_two_workers_is_taken_away(hosts: HostContainers, flow: Flow) -> None:
    """Both reach coordinator and brokers all the while: only slots can notice."""
    wait_until(lambda: set(hosts.hosts_of(flow.job)) == {"a", "b"}, "each worker runs a part of the job")
    before = hosts.client.status(flow.job).attempt

    with flow.recovering("wire taken away"), hosts.unplugged("b", hosts.data):
        wait_until(lambda: hosts.client.status(flow.job).attempt > before, "the job starts again")
        # one that a busy machine holds up comes back; one that the wire has cost would not, for it is still away
        wait_until(lambda: len(hosts.client.cluster().workers) == WORKERS, "no worker is lost")

    wait_whole(hosts)


@pytest.mark.full
def test_a_worker_stands_still_past_its_lease(hosts: HostContainers, flow: Flow) -> None:
    """What it does when it wakes counts for nothing: the other one has long gone on."""
    still = busy_host(hosts, flow)

    with flow.recovering("worker stands still"), hosts.paused(still):
        wait_until(lambda: len(hosts.client.cluster().workers) == 1, "it is lost")
        flow.wait_other_attempt()
        flow.wait_checkpoint()
        assert still not in hosts.hosts_of(flow.job)

    wait_whole(hosts)


@pytest.mark.full
def test_a_host_dies_and_comes_back(hosts: HostContainers, flow: Flow) -> None:
    dead = busy_host(hosts, flow)

    with flow.recovering("host dies"):
        hosts.kill(dead)
        flow.wait_other_attempt()
        assert dead not in hosts.hosts_of(flow.job)
        hosts.restart(dead)

    wait_whole(hosts)
