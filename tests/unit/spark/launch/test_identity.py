from __future__ import annotations

from pathlib import Path

import pytest

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.records import AttemptRecord, FinishedRecord, Record
from headrace.checkpoint.paths import job_url
from headrace.checkpoint.stores.opening import open_store
from headrace.core.source_state import AppliedFloor
from headrace.spark.driver.unpublished import unpublished_job
from headrace.spark.launch.identity import replay_job, replay_key

DOCUMENT = {"name": "p", "sources": {"one": {"stop": 1}}}
OPTIONS = {"savepoint": None, "final": False}


def test_a_key_stands_for_what_is_run_and_how() -> None:
    key = replay_key(DOCUMENT, OPTIONS)
    assert key == replay_key(dict(reversed(DOCUMENT.items())), dict(reversed(OPTIONS.items())))
    others = [replay_key(DOCUMENT | {"name": "q"}, OPTIONS), replay_key(DOCUMENT, OPTIONS | {"final": True})]
    others += [replay_key(DOCUMENT, OPTIONS, [AppliedFloor("one", "t", 0, 5, floor)]) for floor in (7, 8)]
    assert len({key, *others}) == 5
    assert len(key) == 8


@pytest.mark.parametrize("ended", [False, True])
def test_the_same_command_goes_on_with_what_is_unfinished(tmp_path: Path, ended: bool) -> None:
    storage = str(tmp_path)
    first = replay_job(storage, "p", "k")
    assert first == "replay-p-k-1"
    assert replay_job(storage, "p", "k") == first, "nothing was written yet"
    journal = JournalStore(open_store(job_url(storage, first)), "", "w")
    journal.load()
    begun = AttemptRecord(at_ms=1, attempt=1, savepoint=None, parallelism=1, plan_hash="h", splits={})
    records: list[Record] = [begun, FinishedRecord(at_ms=2, state="FINISHED", savepoint=None)]
    for record in records[: 1 + ended]:
        journal.append(record)
    assert replay_job(storage, "p", "k") == ("replay-p-k-2" if ended else first)
    assert replay_job(storage, "p", "other") == "replay-p-other-1"
    assert replay_job(storage, "p-k", "1") == "replay-p-k-1-1"


def test_nobody_takes_up_what_is_not_published() -> None:
    assert unpublished_job("p", "k") != unpublished_job("p", "k")
