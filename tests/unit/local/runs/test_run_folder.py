"""Folders of runs: what a killed one left goes with the next one, what is in use stays."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from headrace.local.runs.run_folder import WORKER, YOUNG_S, run_folder
from headrace.worker.supervision.worker_folder import LOCK, WorkerFolder


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
