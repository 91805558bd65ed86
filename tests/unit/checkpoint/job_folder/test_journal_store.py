"""A writer of a journal finds out that another one goes on, also where it only reads."""

from __future__ import annotations

from pathlib import Path

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.journal import JournalReplaced, Written
from headrace.checkpoint.stores.opening import open_store
from support.storage.checkpoints import attempt


def writer(folder: Path, token: str) -> JournalStore:
    return JournalStore(open_store(str(folder)), "", token)


def test_a_writer_that_reads_again_sees_who_goes_on(tmp_path: Path) -> None:
    first, second = writer(tmp_path, "one"), writer(tmp_path, "two")
    assert isinstance(first.append(attempt(1)), Written)
    assert second.load().head == 1
    assert isinstance(second.append(attempt(2)), Written)

    assert first.replaced is None
    assert first.load().head == 2

    assert first.replaced == JournalReplaced(2, "two")
    assert first.append(attempt(3)) == JournalReplaced(2, "two")
    assert isinstance(second.append(attempt(3)), Written)


def test_what_stood_before_its_first_record_was_another_s_to_write(tmp_path: Path) -> None:
    first, second = writer(tmp_path, "one"), writer(tmp_path, "two")
    first.append(attempt(1))
    second.load()
    first.append(attempt(2))

    assert second.load().head == 2
    assert second.replaced is None
    assert isinstance(second.append(attempt(3)), Written)
    second.load()
    assert second.replaced is None


def test_who_goes_on_is_known_by_name_however_many_records_it_has_written(tmp_path: Path) -> None:
    first, second = writer(tmp_path, "one"), writer(tmp_path, "two")
    first.append(attempt(1))
    second.load()
    first.append(attempt(2))
    first.append(attempt(3))
    assert second.append(attempt(2)) == JournalReplaced(3, "one")
