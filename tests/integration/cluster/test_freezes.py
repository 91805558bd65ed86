"""Processes that stand still past their lease and wake: their work has gone to others, and they take none of it back.

Victims are chosen within `recovering`: a lease that ran out before on a slow host has given the job to others.

What a frozen process held when it stopped must not come out after it woke: it is gone soon after, and the results,
compared row by row, hold nothing of it that the new attempt did not write as well. The commit tier freezes a supervisor
with its slots, and two coordinators of one job, in exactly_once/test_freezes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.clusters.kafka_flow import Flow
from support.clusters.session import WORKER, Cluster, frozen, kill, running_cluster, wait_gone
from support.clusters.worker_process import parent_of
from support.patience import SHORT_CLUSTER_LEASES
from support.processes.running import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.turns(3, of="files")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One with short leases."""
    with running_cluster(tmp_path_factory.mktemp("c"), times=SHORT_CLUSTER_LEASES) as running:
        yield running


def worker_of(flow: Flow) -> int:
    """A supervisor whose slots run the job; a slot that has just ended has none any more."""
    found: list[int] = []

    def is_there() -> bool:
        workers = flow.cluster.processes(WORKER)
        found[:] = [worker for worker in map(parent_of, flow.slots()) if worker in workers]
        return bool(found)

    wait_until(is_there, "a worker runs the job")
    return found[0]


@pytest.mark.full
def test_a_supervisor(cluster: Cluster, flow: Flow) -> None:
    """Its slots end by themselves, though nobody can tell them to: no writer is left behind."""
    with flow.recovering("supervisor frozen"):
        worker = worker_of(flow)
        slots = cluster.slots(worker)
        with frozen(worker):
            wait_gone(*slots)
            flow.wait_other_attempt()
            flow.wait_checkpoint()

    assert worker in cluster.processes()
    wait_until(lambda: len(cluster.slots(worker)) == 2, "it joins again with slots of its own")


def test_a_slot(cluster: Cluster, flow: Flow) -> None:
    with flow.recovering("slot frozen"):
        slot = flow.slots()[0]
        with frozen(slot):
            flow.wait_other_attempt()

    wait_gone(slot)


@pytest.mark.full
def test_all_slots_of_a_worker(cluster: Cluster, flow: Flow) -> None:
    with flow.recovering("all slots of a worker frozen"):
        slots = cluster.slots(worker_of(flow))
        with frozen(*slots):
            flow.wait_other_attempt()

    wait_gone(*slots)


@pytest.mark.full
def test_a_supervisor_with_its_slots(cluster: Cluster, flow: Flow) -> None:
    """What none of them can notice, all of them notice when they wake."""
    with flow.recovering("supervisor and slots frozen"):
        worker = worker_of(flow)
        slots = cluster.slots(worker)
        with frozen(worker, *slots):
            flow.wait_other_attempt()
            flow.wait_checkpoint()

    wait_gone(*slots)
    wait_until(lambda: len(cluster.slots()) == 4, "it joins again with slots of its own")


def test_the_coordinator(cluster: Cluster, flow: Flow) -> None:
    """Workers stop the attempt that nobody masters; when the coordinator wakes they join it with fresh slots."""
    coordinator = cluster.coordinator()

    with flow.recovering("coordinator frozen"):
        slots = flow.slots()
        with frozen(coordinator):
            wait_gone(*slots)

    assert cluster.coordinator() == coordinator


@pytest.mark.full
def test_two_coordinators_on_one_store(cluster: Cluster, flow: Flow, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The journal lets one decide: the one that slept finds its number taken, and leaves the job."""
    first = cluster.coordinator()
    before = cluster.client.status(flow.job).attempt
    # what is slow there must not count as a disturbance by the one that slept
    other = Cluster(tmp_path_factory.mktemp("d"))
    try:
        with frozen(first):
            # the same job with the same journal, in another home: this is what a standby on another host has
            cluster.copy_jobs_to(other)
            other.start(workers=1)
            second = other.wait_state(flow.job, "RUNNING").attempt
            assert second > before
        cluster.wait_state(flow.job, "SUSPENDED")
        flow.cluster = other
        flow.wait_checkpoint()
        flow.settle()
        assert other.client.status(flow.job).attempt == second
    finally:
        flow.cluster = cluster
        other.end()
    kill(first)
    cluster.start_again()
    assert cluster.wait_state(flow.job, "RUNNING").attempt > second
    flow.wait_checkpoint()
    flow.settle()
