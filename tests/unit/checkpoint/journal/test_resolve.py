"""What a recovery does first, and from what it goes on."""

from __future__ import annotations

import pytest

from headrace.checkpoint.journal.journal import Journal
from headrace.checkpoint.journal.records import FinishedRecord, StoppingRecord
from headrace.checkpoint.journal.resolve import CheckpointUnusableError, require_claimable, resolve
from headrace.core.errors import UserError
from support.storage.checkpoints import attempt, checkpoint, committed, history

STOPPING = StoppingRecord(savepoint="/savepoints/one", at_ms=0)


def test_a_new_job_has_nothing_to_restore() -> None:
    found = resolve(Journal())
    assert (found.restore, found.commit_first, found.next_attempt, found.epoch) == (None, None, 1, 0)
    assert not found.ends


def test_a_job_that_never_completed_a_checkpoint_begins_with_its_savepoint_again() -> None:
    found = resolve(history(attempt(1, savepoint="s3://b/savepoint-1/manifest.json")))
    assert found.begins_with == "s3://b/savepoint-1/manifest.json"
    own = resolve(history(attempt(1, savepoint="s3://b/savepoint-1/manifest.json"), checkpoint(1), committed(1)))
    assert own.begins_with is None
    assert own.restore is not None


def test_what_was_decided_is_committed_first() -> None:
    found = resolve(history(attempt(1), checkpoint(1), committed(1), checkpoint(2, sinks=["out"])))
    assert found.restore is not None
    assert found.commit_first is not None
    assert found.restore.epoch == found.commit_first.manifest.epoch == 2
    assert found.epoch == 2


def test_epochs_that_were_given_up_are_not_used_again() -> None:
    found = resolve(history(attempt(1), checkpoint(1), committed(1), checkpoint(2), attempt(2, 1)))
    assert found.restore is not None
    assert (found.restore.epoch, found.epoch, found.next_attempt) == (1, 2, 3)
    assert found.commit_first is None


def test_a_stop_whose_epoch_is_complete_runs_nothing_any_more() -> None:
    done = checkpoint(2).model_copy(update={"savepoint": "/savepoints/one"})
    found = resolve(history(attempt(1), checkpoint(1), committed(1), STOPPING, done))
    assert found.ends
    assert found.stopped == found.commit_first == found.unfinished
    again = resolve(history(attempt(1), checkpoint(1), committed(1), STOPPING, done, committed(2)))
    assert again.ends
    assert again.commit_first is None
    assert again.unfinished == again.stopped, "its manifest may be missing"


def test_a_stop_whose_epoch_is_not_complete_is_taken_again() -> None:
    found = resolve(history(attempt(1), checkpoint(1), committed(1), STOPPING, attempt(2, 1)))
    assert not found.ends
    assert found.stopping == STOPPING.model_copy(update={"number": 4, "writer": "one", "after": "one@0"})
    assert found.restore is not None
    assert found.restore.epoch == 1


def test_an_ended_job_ends() -> None:
    ended = FinishedRecord(state="FINISHED", savepoint="/savepoints/one", at_ms=0)
    found = resolve(history(attempt(1), checkpoint(1), committed(1), ended))
    assert found.ends
    assert found.finished is not None
    assert found.finished.savepoint == "/savepoints/one"


def test_a_damaged_checkpoint_without_output_is_passed_over() -> None:
    journal = history(attempt(1), checkpoint(1, sinks=["out"]), committed(1), checkpoint(2), committed(2))
    found = resolve(journal, {2: "state/x is missing"})
    assert found.restore is not None
    assert (found.restore.epoch, found.passed_over, found.epoch) == (1, (2,), 2)


def test_a_damaged_checkpoint_with_output_stops_the_job_and_gives_the_choice() -> None:
    journal = history(attempt(1), checkpoint(1), committed(1), checkpoint(2, sinks=["out"]))
    with pytest.raises(CheckpointUnusableError, match=r"checkpoint 2 of job job .* state/x is missing") as caught:
        resolve(journal, {2: "state/x is missing"})
    assert "output of out" in caught.value.message
    assert caught.value.remedy is not None
    assert "--from-savepoint of the record of checkpoint 1" in caught.value.remedy


def test_the_only_checkpoint_is_damaged() -> None:
    with pytest.raises(CheckpointUnusableError, match="there is no earlier one"):
        resolve(history(attempt(1), checkpoint(1), committed(1)), {1: "cut off"})


def test_a_foreign_checkpoint_is_taken_only_when_its_job_is_over_or_silent() -> None:
    running = history(attempt(1, at_ms=100_000))
    with pytest.raises(UserError, match=r"job job may still be running.* 5s old .*40s"):
        require_claimable(running, "job", 105_000, 10_000, 30_000)
    with pytest.raises(UserError, match="may still be running"):
        require_claimable(running, "job", 90_000, 10_000, 30_000)
    require_claimable(running, "job", 140_000, 10_000, 30_000)
    require_claimable(history(attempt(1), FinishedRecord(state="FAILED", at_ms=100_000)), "job", 1, 10_000, 30_000)
