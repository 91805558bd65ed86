"""A standby takes a hundred jobs over: none is lost, none is there twice, each runs in a later attempt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

from headrace.client.models import JobStatus
from headrace_dev.broker import EmbeddedBroker
from support.clusters.many_jobs import PARALLELISM, ManyJobs, many_jobs
from support.clusters.session import CONNECTOR_HOST, kill
from support.processes.running import wait_until

pytestmark = pytest.mark.full

JOBS = 100


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> Iterator[ManyJobs]:
    with many_jobs(tmp_path_factory.mktemp("m"), broker, slots=PARALLELISM * JOBS) as running:
        yield running


def test_a_hundred_jobs_of_a_leader_that_is_killed(many: ManyJobs) -> None:
    cluster = many.cluster
    many.submit(JOBS)
    before = many.statuses()
    wait_checkpoints(many, dict.fromkeys(before, 0))
    for number in range(2):
        leader, term = cluster.leader(), cluster.term()
        # at any moment of their checkpoints
        kill(leader)
        cluster.start_coordinator(f"later-{number}")
        cluster.wait_later_term(term)
        many.wait_running()
        after = many.statuses()
        assert_taken_over(many, before, after)
        # the journal goes on from the checkpoint that each has restored
        wait_checkpoints(many, {job: epoch_of(status) for job, status in after.items()})
        before = many.statuses()


def assert_taken_over(many: ManyJobs, before: dict[str, JobStatus], after: dict[str, JobStatus]) -> None:
    """Each job is there once, in a later attempt, on slots and with a connector host of its own."""
    cluster = many.cluster
    listed = cluster.client.jobs()
    assert Counter(each.name for each in listed) == Counter(many.jobs.keys())
    assert {each.job_id for each in listed} == set(many.jobs.values())
    assert all(after[job].attempt > status.attempt for job, status in before.items())
    assert all(epoch_of(after[job]) >= epoch_of(status) for job, status in before.items())
    slots = {job: slots_of(status) for job, status in after.items()}
    assert all(len(own) == PARALLELISM for own in slots.values())
    assert len(set[str]().union(*slots.values())) == PARALLELISM * JOBS, "a slot runs two jobs"
    # those of the leader before have noticed its end
    wait_until(lambda: len(cluster.processes(CONNECTOR_HOST)) == JOBS, "a connector host for each job")
    hosts = cluster.processes(CONNECTOR_HOST).values()
    assert all(sum(f"--job {job} " in command for command in hosts) == 1 for job in after)


def wait_checkpoints(many: ManyJobs, epochs: dict[str, int]) -> None:
    """Waits until each job has a checkpoint after that epoch."""
    for job, epoch in epochs.items():
        wait_until(partial(has_checkpoint, many, job, epoch), f"a checkpoint of {job} after {epoch}")


def has_checkpoint(many: ManyJobs, job: str, epoch: int) -> bool:
    """Whether the job has a checkpoint after that epoch."""
    return epoch_of(many.cluster.status(job)) > epoch


def epoch_of(status: JobStatus | None) -> int:
    """Of the newest checkpoint; 0: none."""
    return 0 if status is None or status.checkpoint is None else status.checkpoint.epoch


def slots_of(status: JobStatus) -> set[str]:
    """The slots that run it."""
    return {each.slot for node in status.nodes for each in node.subtasks if each.slot is not None}
