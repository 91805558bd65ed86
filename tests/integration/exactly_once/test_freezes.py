"""Writers and committers that stand still past their lease, and wake when others have long gone on: too late for all.

What a frozen slot had sent, flushed or was about to send never becomes visible; what a frozen committer was about to
commit has been committed or given up by its successor, and its words change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow
from support.clusters.session import Cluster, frozen, kill, running_cluster, wait_gone
from support.clusters.stopping_points import StoppingPoints
from support.clusters.worker_process import parent_of
from support.kafka.open_transactions import require_none_left
from support.patience import SHORT_CLUSTER_LEASES
from support.processes.running import wait_until
from support.third_party_site import third_party_path

pytestmark = [pytest.mark.broker, pytest.mark.turns(3, of="files")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers, each of which has slots enough for the job."""
    folder = tmp_path_factory.mktemp("f")
    with running_cluster(
        folder, workers=2, slots=2, python_path=third_party_path(folder / "site"), times=SHORT_CLUSTER_LEASES
    ) as running:
        yield running


@pytest.fixture(scope="module")
def standby(cluster: Cluster, flow: Flow, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Another home with the same job, and so the same journal: what a coordinator on another host has."""
    folder = tmp_path_factory.mktemp("s")
    other = Cluster(folder, python_path=third_party_path(folder / "site"), times=SHORT_CLUSTER_LEASES)
    cluster.copy_jobs_to(other)
    try:
        yield other
    finally:
        other.end()
    # only now: of two coordinators that both run, either may be the one that has to leave the job
    if flow.cluster is other:
        take_over(flow, cluster)


def take_over(flow: Flow, new: Cluster) -> int:
    """The job runs there, whoever else believes to have it; gives the attempt."""
    if new.processes("headrace-coordinator"):
        kill(new.coordinator())  # it has left the job to the other one
    new.start(workers=max(1, len(new.processes("headrace-worker"))))
    flow.cluster = new
    return new.wait_state(flow.job, "RUNNING").attempt


def wait_whole(cluster: Cluster) -> None:
    """Both workers are there, with slots of their own; the job runs on two."""
    wait_until(lambda: len(cluster.slots()) == 4, "each worker has its slots")
    wait_until(lambda: cluster.client.cluster().slots_free == 2, "the others are free")


@pytest.mark.parametrize("step", [pytest.param("before-flush", marks=pytest.mark.full), "after-flush"])
def test_a_worker_wakes_in_the_middle_of_a_barrier(
    cluster: Cluster, broker: EmbeddedBroker, flow: Flow, points: StoppingPoints, step: str
) -> None:
    """Supervisor and slots stand still: nobody ends the writer, and it goes on where it stood."""
    with flow.recovering(f"worker frozen {step}"), points.held_at(step) as slot:
        worker = parent_of(slot)
        slots = cluster.slots(worker)
        with frozen(worker, *slots):
            flow.wait_other_attempt()
            flow.wait_checkpoint()
            points.let_go(step)
    wait_gone(*slots)
    require_none_left(broker, flow)
    wait_whole(cluster)


@pytest.mark.full
def test_slots_alone(cluster: Cluster, broker: EmbeddedBroker, flow: Flow, points: StoppingPoints) -> None:
    """Their supervisor ends them as they stand, one of them in the middle of a barrier."""
    with flow.recovering("slots frozen"), points.held_at("after-flush") as slot:
        slots = cluster.slots(parent_of(slot))
        with frozen(*slots):
            wait_gone(*slots)
            flow.wait_other_attempt()
    require_none_left(broker, flow)
    wait_whole(cluster)


@pytest.mark.parametrize(
    "step",
    [
        *(
            pytest.param(step, marks=pytest.mark.full)
            for step in ("before-describe", "after-describe", "before-commit")
        ),
        "mid-commit",
    ],
)
def test_two_coordinators(
    cluster: Cluster, standby: Cluster, broker: EmbeddedBroker, flow: Flow, points: StoppingPoints, step: str
) -> None:
    """One sleeps in the middle of a commit, with its connector host; the other has taken over when it wakes."""
    old, new = (cluster, standby) if flow.cluster is cluster else (standby, cluster)
    with points.held_at(step), frozen(old.coordinator(), *old.connector_hosts()):
        attempt = take_over(flow, new)
        points.let_go(step)
        flow.wait_checkpoint()
    old.wait_state(flow.job, "SUSPENDED")
    wait_until(lambda: not old.connector_hosts(), "its committer is gone")
    flow.settle()
    require_none_left(broker, flow)
    failures = [each.message for each in new.client.exceptions(flow.job) if each.attempt >= attempt]
    assert not [each for each in failures if "transaction" in each], failures
