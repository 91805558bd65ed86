"""The coordinator's jobs: what is durable, what is encrypted, who is replaced, what an earlier version left."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from headrace.checkpoint.stores.file import FileStore
from headrace.coordinator.job.history import JobHistory
from headrace.coordinator.ledger.records import JobResult
from headrace.coordinator.store import job_store
from headrace.coordinator.store.job_store import ENDED_MAX, JobStore, StoredJob, WatchedStore, open_job_store
from headrace.coordinator.store.ledger_store import LedgerReplacedError, LedgerStore
from headrace.coordinator.store.sealing import Sealer
from headrace.coordinator.store.submission import JobSubmission, StoredFloor, SubmissionOptions
from headrace.core.clock import SystemClock
from headrace.core.errors import ExternalError
from headrace.core.settings import Home
from headrace.leadership.candidacy.candidacy import StorageLost, TermOver
from headrace.rpc.messages import Failure
from support.patience import WAIT_SECONDS


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
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def store(home: Home) -> JobStore:
    return open_job_store(home)


def test_jobs_are_there_after_a_restart(store: JobStore, home: Home) -> None:
    assert store.load_all() == ([], {})
    history = JobHistory().started(3, 1, 1)
    store.add(submission(2))
    store.add(submission(1))
    store.save_history(submission(1).job, JobHistory())
    store.save_history(submission(1).job, history)
    store.end(submission(1).job, result(9))
    assert open_job_store(home).load_all() == (
        [StoredJob(submission(1), result(9), history), StoredJob(submission(2), None, JobHistory())],
        {},
    )


def test_an_older_history_replaces_no_newer_one(store: JobStore, home: Home) -> None:
    store.add(submission(1))
    older = JobHistory().started(3, 1, 1)
    newer = older.running(4, 1)
    store.save_history(submission(1).job, newer)
    store.save_history(submission(1).job, older)
    ((found,), _) = open_job_store(home).load_all()
    assert found.history == newer


def test_no_file_has_a_secret_in_plain(store: JobStore, home: Home) -> None:
    store.add(submission(1))
    files = [path for path in home.root.rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"00000001.json", "00000002.json", "key"}
    assert not [path for path in files if b"secret" in path.read_bytes()]
    assert (home.root / "cluster").stat().st_mode & 0o777 == 0o700
    assert (home.root / "cluster" / "key").stat().st_mode & 0o777 == 0o600


def test_another_key_reads_no_job_and_says_so(store: JobStore, home: Home) -> None:
    store.add(submission(1))
    (home.root / "cluster" / "key").unlink()
    jobs, unreadable = open_job_store(home).load_all()
    assert jobs == []
    assert "encrypted with another key" in unreadable[submission(1).job]


def test_the_oldest_ended_jobs_go_and_running_ones_stay(
    store: JobStore, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_store, "ENDED_MAX", 3)
    for number in range(6):
        store.add(submission(number))
    assert [store.end(submission(number).job, result(number)) for number in (5, 4, 3, 2)] == [
        (),
        (),
        (),
        (submission(2).job,),
    ]
    assert store.end(submission(1).job, result(9)) == (submission(3).job,)
    assert [path.name for path in sorted(home.jobs.iterdir())] == [submission(number).job for number in (0, 1, 4, 5)]
    jobs, _ = open_job_store(home).load_all()
    assert [(int(each.submission.job, 16), each.result is None) for each in jobs] == [
        (0, True),
        (1, False),
        (4, False),
        (5, False),
    ]
    assert ENDED_MAX > 3


def test_a_home_that_cannot_be_written_is_said(home: Home) -> None:
    home.jobs.write_text("in the way")
    with pytest.raises(ExternalError, match=r"jobs.* cannot be made"):
        open_job_store(home).add(submission(1))
    (home.root / "cluster").rename(home.root / "moved")
    (home.root / "cluster").write_text("in the way")
    with pytest.raises(ExternalError, match="cluster cannot be made"):
        open_job_store(home)


def test_a_submission_that_is_discarded_was_never_there(store: JobStore, home: Home) -> None:
    store.discard(submission(1).job)
    store.add(submission(1))
    store.discard(submission(1).job)
    assert open_job_store(home).load_all() == ([], {})


def test_an_end_that_is_withdrawn_was_never_there(store: JobStore, home: Home) -> None:
    store.add(submission(1))
    store.withdraw_end(submission(1).job)
    store.end(submission(1).job, result(9))
    store.withdraw_end(submission(1).job)
    ((found,), _) = open_job_store(home).load_all()
    assert found.result is None


@pytest.mark.parametrize(
    "change",
    [
        lambda store: store.add(submission(2)),
        lambda store: store.discard(submission(1).job),
        lambda store: store.save_history(submission(1).job, JobHistory()),
        lambda store: store.end(submission(1).job, result(9)),
        lambda store: store.withdraw_end(submission(1).job),
    ],
)
def test_who_was_replaced_changes_nothing(store: JobStore, home: Home, change: Callable[[JobStore], object]) -> None:
    store.add(submission(1))
    newer = open_job_store(home)
    before = newer.load_all()
    with pytest.raises(LedgerReplacedError):
        change(store)
    with pytest.raises(LedgerReplacedError):
        change(store)
    newer.save_history(submission(1).job, JobHistory())
    assert open_job_store(home).load_all() == before


def test_changes_of_many_threads_share_records(store: JobStore, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    store.load_all()
    sizes: list[int] = []
    append, arrived = LedgerStore.append, threading.Barrier(2)

    def noted(ledger: LedgerStore, changes: list[object]) -> object:
        if not sizes:
            # the first record waits until all others are queued
            arrived.wait()
        sizes.append(len(changes))
        return append(ledger, changes)  # type: ignore[arg-type]

    monkeypatch.setattr(LedgerStore, "append", noted)
    threads = [threading.Thread(target=store.add, args=(submission(number),)) for number in range(9)]
    for thread in threads:
        thread.start()
    while len(store._queue.waiting) < 9:
        threading.Event().wait(0.001)
    arrived.wait()
    for thread in threads:
        thread.join()
    assert sum(sizes) == 9
    assert len(sizes) <= 3
    assert len(open_job_store(home).load_all()[0]) == 9


BEFORE = """
{"job": "000000000001", "name": "flights", "pipeline": {"name": "flights"}, "submitted_at_ms": 1, "storage": "file:///s",
 "options": {"parallelism": 2, "from_savepoint": null, "claim": false, "renames": {"a": "b"}, "code": ["file:///c.tar"],
             "python_path": ["/code"], "floors": [["s", "t", 0, 5, 1000]], "allow_drained": true}}
"""


def earlier(home: Home, number: int, text: str = BEFORE) -> Path:
    folder = home.jobs / f"{number:012x}"
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(text.replace("000000000001", folder.name))
    return folder


def test_jobs_of_an_earlier_version_are_taken_over(home: Home) -> None:
    """With an option that is not known any more. Afterwards no file has their secrets in plain."""
    history, end = JobHistory().started(3, 1, 1), result(9)
    first, second = earlier(home, 1), earlier(home, 2)
    (first / "history.json").write_text(history.model_dump_json())
    (first / "result.json").write_text(end.model_dump_json())
    (first / "job.log").write_text("what happened")
    # a submission that a crash interrupted, and what is no job at all
    (home.jobs / "000000000003").mkdir()
    (home.jobs / "lost+found").mkdir()
    jobs, unreadable = open_job_store(home).load_all()
    assert unreadable == {}
    assert [(each.submission.job, each.result, each.history) for each in jobs] == [
        (first.name, end, history),
        (second.name, None, JobHistory()),
    ]
    assert jobs[0].submission.options == SubmissionOptions(
        parallelism=2,
        renames={"a": "b"},
        code=("file:///c.tar",),
        python_path=("/code",),
        floors=(StoredFloor("s", "t", 0, 5, 1_000),),
    )
    assert [path.name for path in first.iterdir()] == ["job.log"]
    assert open_job_store(home).load_all() == (jobs, {})


def test_a_crash_while_an_earlier_home_is_taken_over_takes_no_job_twice(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = earlier(home, 1)
    monkeypatch.setattr(job_store, "remove_earlier_files", lambda folders: None)
    store = open_job_store(home)
    store.end(folder.name, result(9))
    monkeypatch.undo()
    ((found,), _) = open_job_store(home).load_all()
    assert found.result == result(9)
    assert list(folder.iterdir()) == []


def test_what_cannot_be_read_of_an_earlier_home_stays_and_hides_nothing_else(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    earlier(home, 1)
    broken = earlier(home, 2, '{"job": 1}')
    jobs, _ = open_job_store(home).load_all()
    assert [each.submission.job for each in jobs] == ["000000000001"]
    assert (broken / "job.json").exists()
    assert "000000000002 cannot be read and is left alone" in caplog.text


T = TypeVar("T")


class Storage(FileStore):
    """A folder that answers no listing while `away` is set: it refuses, or hangs until `back` is set."""

    def __init__(self, url: str, *, hangs: bool) -> None:
        super().__init__(url)
        self.hangs = hangs
        self.away, self.back = threading.Event(), threading.Event()
        self.asked = 0

    def list(self, prefix: str) -> list[str]:
        if self.away.is_set():
            self.asked += 1
            if self.hangs:
                self.back.wait(WAIT_SECONDS)
            raise ExternalError("storage is away", retry=True)
        return super().list(prefix)


async def blocking(work: Callable[[], T]) -> T:
    return await asyncio.to_thread(work)


@pytest.mark.parametrize("hangs", [False, True])
def test_a_ledger_that_is_out_of_reach_for_long_ends_a_term(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, hangs: bool
) -> None:
    monkeypatch.setattr(job_store, "WATCH_S", 0.01)
    monkeypatch.setattr(job_store, "STORAGE_LOST_S", 0.1)
    storage = Storage(str(tmp_path / "shared"), hangs=hangs)
    jobs = JobStore(tmp_path / "jobs", LedgerStore(storage, "w", SystemClock()), Sealer(tmp_path / "key"))
    jobs.take_over()

    async def test() -> None:
        told: asyncio.Queue[TermOver] = asyncio.Queue()
        watched = WatchedStore(jobs, blocking, told.put_nowait)
        watching = asyncio.create_task(watched.watch())
        storage.away.set()
        first = await asyncio.wait_for(told.get(), WAIT_SECONDS)
        # there may be no standby, for which the coordinator gives up: then it looks on, and asks once at a time
        second = await asyncio.wait_for(told.get(), WAIT_SECONDS)
        assert isinstance(first, StorageLost)
        assert isinstance(second, StorageLost)
        assert "out of reach for long" in first.reason
        assert storage.asked == 1 or not hangs
        watched.close()
        # a call that hangs delays no end
        await asyncio.wait_for(watching, WAIT_SECONDS)
        storage.back.set()

    asyncio.run(test())
