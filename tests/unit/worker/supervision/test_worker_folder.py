"""A worker's folder: one worker's alone, and cleared of what an earlier one left."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from headrace.core.errors import ExternalError, UserError
from headrace.processes.worker_folders import sockets_folder
from headrace.worker.supervision.worker_folder import WorkerFolder


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_it_is_held_by_one_worker_at_a_time(tmp_path: Path) -> None:
    held = WorkerFolder(tmp_path / "w")
    with pytest.raises(UserError, match="already"):
        WorkerFolder(tmp_path / "w")
    WorkerFolder(tmp_path / "other").release()
    held.release()
    WorkerFolder(tmp_path / "w").release()


def test_what_a_killed_worker_left_is_gone(tmp_path: Path, temporary: Path) -> None:
    first = WorkerFolder(tmp_path / "w")
    sockets = first.folders.sockets
    first.release()
    sockets.mkdir()
    (sockets / "left.sock").touch()
    first.folders.scratch.mkdir()
    (first.folders.scratch / "left").touch()
    again = WorkerFolder(tmp_path / "w")
    assert list(sockets.iterdir()) == []
    assert not first.folders.scratch.exists()
    assert sockets.stat().st_mode & 0o777 == 0o700
    again.release()
    assert list(temporary.iterdir()) == []


def test_a_folder_of_another_user_in_the_place_of_its_sockets_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    WorkerFolder(tmp_path / "w").release()
    sockets = sockets_folder(tmp_path / "w")
    sockets.mkdir()
    # in a folder with the sticky bit, only its owner may remove it
    monkeypatch.setattr(shutil, "rmtree", lambda path, ignore_errors: None)
    with pytest.raises(ExternalError, match="belongs to another user") as refused:
        WorkerFolder(tmp_path / "w")
    assert "TMPDIR" in (refused.value.remedy or "")


def test_a_folder_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ExternalError, match="cannot be used"):
        WorkerFolder(tmp_path / "file" / "w")
