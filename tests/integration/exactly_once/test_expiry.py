"""Transactions that are aborted outside before the job commits them: every row once, or the user is asked.

In the commit tier the test itself aborts them, by the request that an operator would send. In the full tier the broker
does it because they have expired: one of this module's own, which looks for expired transactions ten times a second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator

import pytest

from headrace_connectors.kafka.transactions.rules import NONE
from headrace_connectors.kafka.transactions.txn_admin import TxnAdmin
from headrace_dev.broker import EmbeddedBroker
from support.clusters.copying_job import CopyingJob
from support.clusters.session import Cluster
from support.clusters.stopping_points import StoppingPoints
from support.kafka.broker import running_broker
from support.kafka.open_transactions import ONGOING, open_transactions, require_none_open
from support.patience import BROKER_SESSION, SHORT_CHECKPOINT_TIMEOUT, SHORT_TRANSACTION_TIMEOUT, WAIT_SECONDS
from support.processes.running import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.turns(3, of="files")]

GiveUp = Callable[[CopyingJob], None]
"""Returns when no transaction is open any more of those that the job had open."""
EXPIRING = {"checkpoint_timeout": SHORT_CHECKPOINT_TIMEOUT, "transaction_timeout": SHORT_TRANSACTION_TIMEOUT}


@pytest.fixture(scope="module", params=["fenced", pytest.param("expired", marks=pytest.mark.full)])
def ending(request: pytest.FixtureRequest) -> str:
    """How transactions come to their end."""
    return str(request.param)


@pytest.fixture(scope="module")
def brokers(
    ending: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedBroker]:
    """The session's broker, or one that notices expired transactions soon."""
    if ending == "fenced":
        yield request.getfixturevalue("broker")
        return
    settings = {**BROKER_SESSION, "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
    with running_broker(tmp_path_factory.mktemp("kafka"), settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def give_up(ending: str, brokers: EmbeddedBroker) -> GiveUp:
    """Ends all that the job has open: by fencing its writers, or by waiting until the broker does it."""

    def fence(names: Collection[str]) -> None:
        admin = TxnAdmin(brokers.bootstrap, {}, patience_s=WAIT_SECONDS)
        try:
            answers = admin.fence(names)
        finally:
            admin.close()
        assert set(answers.values()) == {NONE}, answers

    def end(job: CopyingJob) -> None:
        names = set(open_transactions(brokers, job.job, [ONGOING]))
        # on a slow machine they may have expired by now
        assert names or ending == "expired"
        if ending == "fenced":
            fence(names)
        # a new attempt, which begins when the writers find out, has others
        wait_until(lambda: not names & set(open_transactions(brokers, job.job)), f"the broker has aborted {names}")

    return end


@pytest.fixture(scope="module")
def job(cluster: Cluster, brokers: EmbeddedBroker, points: StoppingPoints, ending: str) -> Iterator[CopyingJob]:
    """Runs, and has two checkpoints with rows behind it; each test leaves it so but the last one."""
    job = CopyingJob(cluster, brokers, points, **(EXPIRING if ending == "expired" else {}))
    job.submit()
    for _ in range(2):
        job.write_and_see()
    yield job
    job.cancel()
    require_none_open(brokers, job.job)


def write_until_held(job: CopyingJob, points: StoppingPoints, step: str) -> None:
    """Rows come until a process stands at the step, where each of the two subtasks has a transaction."""

    def held() -> bool:
        job.write()
        return points.is_somebody_at(step)

    points.ask(step)
    wait_until(held, f"somebody stands {step}")


def told(job: CopyingJob) -> str:
    """All that the job says of its failures."""
    return "\n".join(f"{each.message} {each.remedy}" for each in job.cluster.client.exceptions(job.job))


def test_all_of_a_decided_epoch(job: CopyingJob, points: StoppingPoints, give_up: GiveUp) -> None:
    """Nothing of it was ever visible: the job goes on from the checkpoint before it."""
    write_until_held(job, points, "before-commit")
    with points.held_at("before-commit"):
        give_up(job)
        assert job.visible() != job.written
    job.wait_visible()
    assert "was aborted or expired outside of this job before it was committed" in told(job)
    assert "raise transaction_timeout" in told(job)
    job.write_and_see()


def test_what_is_not_decided(job: CopyingJob, points: StoppingPoints, give_up: GiveUp) -> None:
    """The attempt fails, and the next one writes the rows again."""
    write_until_held(job, points, "before-describe")
    attempt, failures = job.attempt(), len(job.cluster.client.exceptions(job.job))
    with points.held_at("before-describe"):
        give_up(job)
    job.wait_visible()
    assert job.attempt() > attempt
    assert len(job.cluster.client.exceptions(job.job)) > failures
    job.write_and_see()


def test_a_part_of_a_decided_epoch(job: CopyingJob, points: StoppingPoints, give_up: GiveUp) -> None:
    """The user chooses: rows that are missing, or rows that come again; and is told which."""
    write_until_held(job, points, "mid-commit")
    with points.held_at("mid-commit"):
        give_up(job)
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

    # before the job starts: it writes the rows again at once
    known = job.visible()
    job.submit("--from-savepoint", before[1])
    assert not job.lost_after(job.write())
    again = job.visible() - known
    assert lost <= again <= job.written
