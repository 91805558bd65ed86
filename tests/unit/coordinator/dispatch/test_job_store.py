"""The jobs on disk."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from headrace.coordinator.dispatch.job_store import (
    ENDED_MAX,
    JobResult,
    JobStore,
    JobSubmission,
    StoredFloor,
    StoredJob,
    SubmissionOptions,
)
from headrace.coordinator.job.history import JobHistory
from headrace.core.errors import ExternalError
from headrace.rpc.messages import Failure


def submission(number: int) -> JobSubmission:
    return JobSubmission(
        job=f"{number:012x}",
        name="flights",
        pipeline={"name": "flights", "sources": {"s": {"kafka": {"properties": {"sasl.password": "secret"}}}}},
        options=SubmissionOptions(parallelism=2, from_savepoint="/s", floors=(StoredFloor("s", "t", 0, 5, 1_000),)),
        submitted_at_ms=number,
        storage="file:///tmp/checkpoints",
    )


def result(number: int) -> JobResult:
    return JobResult(state="FAILED", ended_at_ms=number, failure=Failure("text", "user", retry=False))


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore(tmp_path / "jobs")


def test_jobs_are_there_after_a_restart(store: JobStore, tmp_path: Path) -> None:
    assert store.load_all() == ([], {})
    history = JobHistory().started(3, 1, 1)
    store.add(submission(2))
    store.add(submission(1))
    store.save_history(submission(1).job, JobHistory())
    store.save_history(submission(1).job, history)
    store.end(submission(1).job, result(9))
    assert JobStore(tmp_path / "jobs").load_all() == (
        [StoredJob(submission(1), result(9), history), StoredJob(submission(2), None, JobHistory())],
        {},
    )


def test_an_older_history_replaces_no_newer_one(store: JobStore) -> None:
    store.add(submission(1))
    older = JobHistory().started(3, 1, 1)
    newer = older.running(4, 1)
    store.save_history(submission(1).job, newer)
    store.save_history(submission(1).job, older)
    ((found,), _) = store.load_all()
    assert found.history == newer


def test_secrets_are_the_owners_alone(store: JobStore) -> None:
    store.add(submission(1))
    folder = store.folder(submission(1).job)
    assert (folder / "job.json").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.iterdir()] == ["job.json"]


def test_the_oldest_ended_jobs_go_and_running_ones_stay(store: JobStore) -> None:
    for number in range(ENDED_MAX + 5):
        store.add(submission(number))
    for number in range(2, ENDED_MAX + 5):
        store.end(submission(number).job, result(number))
        os.utime(store.folder(submission(number).job) / "result.json", ns=(number, number))
    store.end(submission(1).job, result(1))
    jobs, _ = store.load_all()
    ended = [int(each.submission.job, 16) for each in jobs if each.result is not None]
    assert [int(each.submission.job, 16) for each in jobs if each.result is None] == [0]
    assert ended == [1, *range(6, ENDED_MAX + 5)]


def test_what_cannot_be_read_is_told_and_hides_nothing_else(store: JobStore) -> None:
    store.add(submission(1))
    store.add(submission(2))
    (store.folder(submission(2).job) / "job.json").write_text('{"job": 1}')
    # a submission that never got there, and what is no job at all
    store.folder(submission(3).job).mkdir()
    store.folder("lost+found").mkdir()
    jobs, unreadable = store.load_all()
    assert [each.submission for each in jobs] == [submission(1)]
    assert list(unreadable) == [submission(2).job]
    assert unreadable[submission(2).job]


def test_a_home_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text("in the way")
    with pytest.raises(ExternalError, match="cannot be made"):
        JobStore(tmp_path / "jobs").add(submission(1))


def test_a_submission_that_is_discarded_was_never_there(store: JobStore, tmp_path: Path) -> None:
    store.discard(submission(1).job)
    store.add(submission(1))
    store.discard(submission(1).job)
    assert JobStore(tmp_path / "jobs").load_all() == ([], {})


def test_an_end_that_is_withdrawn_was_never_there(store: JobStore, tmp_path: Path) -> None:
    store.add(submission(1))
    store.withdraw_end(submission(1).job)
    store.end(submission(1).job, result(9))
    store.withdraw_end(submission(1).job)
    ((found,), _) = JobStore(tmp_path / "jobs").load_all()
    assert found.result is None


def test_what_cannot_be_deleted_is_said(store: JobStore) -> None:
    with pytest.raises(ExternalError, match="cannot be deleted") as refused:
        store.withdraw_end(submission(1).job)
    assert refused.value.retry


BEFORE = """
{"job": "000000000001", "name": "flights", "pipeline": {"name": "flights"}, "submitted_at_ms": 1, "storage": "file:///s",
 "options": {"parallelism": 2, "from_savepoint": null, "claim": false, "renames": {"a": "b"}, "code": ["file:///c.tar"],
             "python_path": ["/code"], "floors": [["s", "t", 0, 5, 1000]], "allow_drained": true}}
"""


def test_a_job_that_an_earlier_version_wrote_is_read(store: JobStore, tmp_path: Path) -> None:
    """With an option that is not known any more."""
    folder = tmp_path / "jobs" / "000000000001"
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(BEFORE)
    ((found,), unreadable) = store.load_all()
    assert unreadable == {}
    assert found.submission.options == SubmissionOptions(
        parallelism=2,
        renames={"a": "b"},
        code=("file:///c.tar",),
        python_path=("/code",),
        floors=(StoredFloor("s", "t", 0, 5, 1_000),),
    )


def test_floors_are_written_as_before(store: JobStore, tmp_path: Path) -> None:
    store.add(submission(1))
    written = json.loads((tmp_path / "jobs" / f"{1:012x}" / "job.json").read_text())
    assert written["options"]["floors"] == [["s", "t", 0, 5, 1_000]]
