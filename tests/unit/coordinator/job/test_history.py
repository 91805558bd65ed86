"""What happened to a job."""

from __future__ import annotations

from headrace.coordinator.job.history import ATTEMPTS_MAX, EXCEPTIONS_MAX, JobHistory
from headrace.rpc.messages import Failure

FAILURE = Failure("text", "external", retry=True, node="sink", subtask=1, worker="w", place="t[0] offset 3")


def test_an_attempt_begins_runs_and_ends() -> None:
    history = JobHistory().started(10, 1, 2).running(20, 1).failed(30, 1, FAILURE)
    history = history.ended(31, 1, "RESTARTING").started(40, 2, 2, restored_epoch=7)
    first, second = history.attempts
    assert (first.started_at_ms, first.running_at_ms, first.ended_at_ms, first.outcome) == (10, 20, 31, "RESTARTING")
    assert (second.restored_epoch, second.running_at_ms, second.reason) == (7, None, "restart")
    assert [(each.at_ms, each.attempt, each.failure) for each in history.exceptions] == [(30, 1, FAILURE)]


def test_a_rescale_ends_when_the_job_runs_again() -> None:
    history = JobHistory().started(1, 1, 2).running(2, 1).ended(5, 1, "RESCALING").started(6, 2, 4)
    assert history.attempts[-1].reason == "rescale"
    assert history.rescales[0].ended_at_ms is None
    (rescale,) = history.running(9, 2).rescales
    assert (rescale.at_ms, rescale.attempt, rescale.ended_at_ms) == (5, 1, 9)
    assert (rescale.from_parallelism, rescale.to_parallelism) == (2, 4)


def test_a_rescale_that_fails_is_a_restart() -> None:
    history = JobHistory().started(1, 1, 2).running(2, 1).ended(5, 1, "RESCALING").ended(6, 1, "RESTARTING")
    history = history.started(7, 2, 2)
    assert history.attempts[-1].reason == "restart"
    assert history.rescales == ()


def test_an_attempt_of_the_next_coordinator_says_so() -> None:
    history = JobHistory().started(1, 1, 2).running(2, 1).started(7, 2, 2)
    assert history.attempts[-1].reason == "coordinator"


def test_the_newest_stay() -> None:
    history = JobHistory()
    for number in range(200):
        history = history.started(number, number, 1).failed(number, number, FAILURE)
    assert len(history.attempts) == ATTEMPTS_MAX
    assert len(history.exceptions) == EXCEPTIONS_MAX
    assert history.attempts[-1].attempt == history.exceptions[-1].attempt == 199


def test_it_is_the_same_after_writing_and_reading() -> None:
    history = JobHistory().started(1, 1, 2).failed(3, 1, FAILURE).ended(4, 1, "RESCALING").started(5, 2, 3)
    assert JobHistory.model_validate_json(history.model_dump_json()) == history
