"""What happened to a job."""

from __future__ import annotations

from headrace.coordinator.job.history import ATTEMPTS_MAX, EXCEPTIONS_MAX, JobHistory
from headrace.rpc.messages import Failure

FAILURE = Failure("text", "external", retry=True, node="sink", subtask=1, worker="w", place="t[0] offset 3")


def test_an_attempt_begins_runs_and_ends() -> None:
    history = JobHistory().started(10, 1, 2, "submitted").running(20, 1).failed(30, 1, FAILURE)
    history = history.ended(31, 1, "RESTARTING").started(40, 2, 2, "restart", restored_epoch=7)
    first, second = history.attempts
    assert (first.started_at_ms, first.running_at_ms, first.ended_at_ms, first.outcome) == (10, 20, 31, "RESTARTING")
    assert (second.restored_epoch, second.running_at_ms, second.reason) == (7, None, "restart")
    assert [(each.at_ms, each.attempt, each.failure) for each in history.exceptions] == [(30, 1, FAILURE)]


def test_a_rescale_ends_when_the_job_runs_again() -> None:
    history = JobHistory().started(1, 1, 2, "submitted").running(2, 1).rescaled(5, 1, 2, 4)
    assert history.rescales[0].ended_at_ms is None
    history = history.started(6, 2, 4, "rescale").running(9, 2)
    (rescale,) = history.rescales
    assert (rescale.from_parallelism, rescale.to_parallelism, rescale.ended_at_ms) == (2, 4, 9)


def test_the_newest_stay() -> None:
    history = JobHistory()
    for number in range(200):
        history = history.started(number, number, 1, "restart").failed(number, number, FAILURE)
    assert len(history.attempts) == ATTEMPTS_MAX
    assert len(history.exceptions) == EXCEPTIONS_MAX
    assert history.attempts[-1].attempt == history.exceptions[-1].attempt == 199


def test_it_is_the_same_after_writing_and_reading() -> None:
    history = JobHistory().started(1, 1, 2, "submitted").failed(3, 1, FAILURE).rescaled(4, 1, 2, 3)
    assert JobHistory.model_validate_json(history.model_dump_json()) == history
