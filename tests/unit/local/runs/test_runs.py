"""Runs of a home: what is kept of one that was cut off."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.records import Record
from headrace.checkpoint.stores.opening import open_store
from headrace.core.errors import UserError
from headrace.core.settings import Home
from headrace.local.runs.runs import RecordedRun, forget_if_nothing_kept, record_run, recorded_run
from support.storage.checkpoints import attempt, checkpoint


@pytest.mark.parametrize("checkpoints", [0, 1])
def test_a_run_that_an_error_cut_off_is_kept_from_its_first_checkpoint_on(tmp_path: Path, checkpoints: int) -> None:
    home, storage = Home(tmp_path / "home"), tmp_path / "storage"
    journal = JournalStore(open_store(str(storage)), "", "one")
    drafts: list[Record] = [attempt(1), checkpoint(1, sinks=["out"])]
    for draft in drafts[: 1 + checkpoints]:
        journal.append(draft)
    run = RecordedRun("j1", str(storage), os.getpid())
    record_run(home, "flights", run)
    forget_if_nothing_kept(home, "flights", run)
    if checkpoints:
        assert recorded_run(home, "flights") == run
        assert open_store(str(storage)).list("")
    else:
        with pytest.raises(UserError, match="no run of flights"):
            recorded_run(home, "flights")
        assert not storage.exists()
