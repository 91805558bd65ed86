"""Transactions that the brokers give up because nobody ended them in time: every row once, or the user is asked.

A broker of this module's own looks for them ten times a second. Times are as short as the pipeline check allows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from headrace.local.broker import EmbeddedBroker
from support.broker import broker_config
from support.cluster import Cluster
from support.copying_job import CopyingJob
from support.open_transactions import open_transactions, require_none_open
from support.running import wait_until
from support.stopping_points import StoppingPoints

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """One that notices soon."""
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
    with EmbeddedBroker(broker_config(tmp_path_factory.mktemp("kafka"), settings=settings)) as running:
        yield running


@pytest.fixture
def job(cluster: Cluster, broker: EmbeddedBroker, points: StoppingPoints) -> Iterator[CopyingJob]:
    """Runs, and has two checkpoints with rows behind it."""
    job = CopyingJob(cluster, broker, points)
    job.submit()
    for _ in range(2):
        job.write_and_see()
    yield job
    job.cancel()
    require_none_open(broker, job.job)


def write_until_held(job: CopyingJob, points: StoppingPoints, step: str) -> None:
    """Rows come until somebody stands at the step, where each of the two subtasks has a transaction."""

    def held() -> bool:
        job.write()
        return points.is_somebody_at(step)

    points.ask(step)
    wait_until(held, f"somebody stands {step}")


def wait_expired(broker: EmbeddedBroker, job: CopyingJob) -> None:
    """Nobody ends them, so the broker does."""
    wait_until(lambda: open_transactions(broker, job.job) == [], "the broker has given up all that was open")


def told(job: CopyingJob) -> str:
    """All that the job says of its failures."""
    return "\n".join(f"{each.message} {each.remedy}" for each in job.cluster.client.exceptions(job.job))


def test_all_of_a_decided_epoch(broker: EmbeddedBroker, job: CopyingJob, points: StoppingPoints) -> None:
    """Nothing of it was ever visible: the job goes on from the checkpoint before it."""
    write_until_held(job, points, "before-commit")
    with points.held_at("before-commit"):
        wait_expired(broker, job)
        assert job.visible() != job.written
    job.wait_visible()
    assert "was given up outside before it was committed" in told(job)
    assert "raise transaction_timeout" in told(job)
    job.write_and_see()


def test_what_is_not_decided(broker: EmbeddedBroker, job: CopyingJob, points: StoppingPoints) -> None:
    """The attempt fails, and the next one writes the rows again."""
    write_until_held(job, points, "before-describe")
    attempt = job.cluster.client.status(job.job).attempt
    with points.held_at("before-describe"):
        wait_expired(broker, job)
    job.wait_visible()
    assert job.cluster.client.status(job.job).attempt > attempt
    assert told(job)
    job.write_and_see()


def test_a_part_of_a_decided_epoch(broker: EmbeddedBroker, job: CopyingJob, points: StoppingPoints) -> None:
    """The user chooses: rows that are missing, or rows that come again; and is told which."""
    write_until_held(job, points, "mid-commit")
    with points.held_at("mid-commit"):
        wait_expired(broker, job)
    failed = job.cluster.wait_state(job.job, "FAILED")
    (before, decided) = job.checkpoints()[-2:]
    assert failed.failure is not None
    assert f"epoch {decided[0]} of job {job.job} is visible in part: 1 of its 2 transactions" in failed.failure
    assert f"from checkpoint {before[0]} (rows that are visible already come again)" in told(job)
    assert f"--from-savepoint of checkpoint {decided[0]} with --allow-lost-output" in told(job)

    refused = job.cluster.headrace("submit", str(job.file), "--from-savepoint", decided[1])
    assert refused.code == 2
    assert "--allow-lost-output" in refused.err

    job.submit("--from-savepoint", decided[1], "--allow-lost-output")
    lost = job.lost_after(job.write())
    (rows,) = re.findall(r"(\d+) rows\) expired", failed.failure)
    assert 0 < lost.total() == int(rows)
    assert job.visible() == job.written - lost
    job.cancel()

    job.submit("--from-savepoint", before[1])
    known = job.visible()
    assert not job.lost_after(job.write())
    again = job.visible() - known
    assert lost <= again <= job.written
