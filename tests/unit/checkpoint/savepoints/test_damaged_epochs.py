"""Checkpoints whose files are gone, cut off or altered; and checkpoints of other jobs that are taken over."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.journal import JournalReplaced, Written
from headrace.checkpoint.journal.records import FinishedRecord, Record
from headrace.checkpoint.savepoints.damaged_epochs import damaged_epochs
from headrace.checkpoint.savepoints.savepoint import find
from headrace.checkpoint.stores.opening import open_store
from headrace.core.errors import UserError
from headrace.execution.origin import claim
from support.storage.checkpoints import attempt, checkpoint, committed


@pytest.fixture
def writer(tmp_path: Path) -> JournalStore:
    """The writer of a job with checkpoints 1 (file a) and 2 (files a, b)."""
    store = open_store(str(tmp_path))
    store.write("state/a", b"data")
    store.write("state/b", b"data")
    writer = JournalStore(store, "", "one")
    drafts: list[Record] = [attempt(1), checkpoint(1, files=["state/a"]), committed(1)]
    drafts += [checkpoint(2, files=["state/a", "state/b"]), committed(2)]
    for draft in drafts:
        writer.append(draft)
    return writer


def test_sound_checkpoints_are_usable(writer: JournalStore, tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    assert damaged_epochs(store, writer.journal) == damaged_epochs(store, writer.journal, deep=True) == {}
    assert damaged_epochs(store, JournalStore(store, "other", "x").load()) == {}


def test_missing_and_short_files_show_in_a_listing(writer: JournalStore, tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    (tmp_path / "state" / "b").write_bytes(b"dat")
    assert damaged_epochs(store, writer.journal) == {2: f"{tmp_path}/state/b has 3 bytes, 4 were written"}
    (tmp_path / "state" / "b").unlink()
    assert damaged_epochs(store, writer.journal) == {2: f"{tmp_path}/state/b is missing"}
    (tmp_path / "state" / "a").unlink()
    assert damaged_epochs(store, writer.journal).keys() == {1, 2}


def test_altered_files_show_when_they_are_read(writer: JournalStore, tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    (tmp_path / "state" / "b").write_bytes(b"dada")
    assert damaged_epochs(store, writer.journal) == {}
    found = damaged_epochs(store, writer.journal, deep=True)[2]
    assert "state/b is altered" in found
    assert found.endswith("(state 'panes' of node 'hourly')")


def test_a_claimed_job_has_lost_its_writer(writer: JournalStore, tmp_path: Path) -> None:
    claim(find(str(tmp_path)), "claimer", 5)
    assert isinstance(writer.append(checkpoint(3)), JournalReplaced)
    journal = JournalStore(open_store(str(tmp_path)), "", "reader").load()
    assert (journal.attempt, journal.epoch, len(journal.checkpoints)) == (2, 2, 2)
    # a coordinator that comes back to the job finds that it has ended
    assert journal.finished is not None
    assert journal.finished.state == "CANCELED"


def test_a_claimed_job_with_output_to_commit_has_ended_as_well(writer: JournalStore, tmp_path: Path) -> None:
    """The claimer fences what it left open: to come back and find that lost would be to write it again."""
    writer.append(checkpoint(3, sinks=["out"]))
    claim(find(str(tmp_path)), "claimer", 5)
    journal = JournalStore(open_store(str(tmp_path)), "", "reader").load()
    assert journal.finished is not None
    assert journal.uncommitted is not None


def test_a_job_that_goes_on_meanwhile_is_not_claimed(writer: JournalStore, tmp_path: Path) -> None:
    found = find(str(tmp_path))
    assert isinstance(writer.append(checkpoint(3)), Written)
    with pytest.raises(UserError, match="is running"):
        claim(found, "claimer", 5)
    assert isinstance(writer.append(committed(3)), Written)


def test_a_finished_job_is_left_as_it_is(writer: JournalStore, tmp_path: Path) -> None:
    writer.append(FinishedRecord(state="FINISHED", at_ms=0))
    claim(find(str(tmp_path)), "claimer", 5)
    assert JournalStore(open_store(str(tmp_path)), "", "reader").load().finished is not None
