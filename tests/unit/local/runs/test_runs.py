"""Runs of a home: what is kept of one that was cut off."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.records import Record
from headrace.checkpoint.stores.opening import open_store
from headrace.core.errors import UserError
from headrace.core.settings import Home
from headrace.local.runs.runs import (
    WORKER,
    YOUNG_S,
    RecordedRun,
    forget_if_nothing_kept,
    record_run,
    recorded_run,
    run_folder,
)
from headrace.worker.supervision.worker_folder import LOCK, WorkerFolder
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


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def aged(folder: Path) -> None:
    then_s = folder.stat().st_mtime - 2 * YOUNG_S
    os.utime(folder, (then_s, then_s))


def just_made(path: Path) -> None:
    """However long what comes next takes."""
    then_s = path.stat().st_mtime + 3_600
    os.utime(path, (then_s, then_s))


def test_a_run_leaves_nothing(temporary: Path) -> None:
    with run_folder() as folder:
        (folder / "log").write_text("text")
    assert list(temporary.iterdir()) == []


def test_what_a_killed_run_left_goes_with_its_sockets(temporary: Path) -> None:
    left = temporary / "headrace-run-killed"
    killed = WorkerFolder(left / WORKER)
    os.close(killed._lock)  # as its end does
    (killed.folders.sockets / "slot-1.sock").write_text("")
    begun = temporary / "headrace-run-begun" / WORKER / LOCK
    begun.parent.mkdir(parents=True)
    begun.touch()
    aged(begun)
    with run_folder() as folder:
        assert [path for path in temporary.iterdir() if path != folder] == []


def test_what_is_in_use_or_young_stays(temporary: Path) -> None:
    used, young = temporary / "headrace-run-used", temporary / "headrace-run-young"
    running = WorkerFolder(used / WORKER)
    aged(used / WORKER / LOCK)
    starting = temporary / "headrace-run-starting" / WORKER / LOCK
    starting.parent.mkdir(parents=True)
    starting.touch()
    just_made(starting)
    young.mkdir()
    just_made(young)
    with run_folder():
        assert used.is_dir()
        assert young.is_dir()
        assert (temporary / "headrace-run-starting").is_dir()
        assert running.folders.sockets.is_dir()
    running.release()
