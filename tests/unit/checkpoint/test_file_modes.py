"""Who may read what a folder of checkpoints holds: below a home its owner alone, elsewhere as the umask lets it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.checkpoint.stores.file import FileStore
from support.storage.permissions import mode_of, open_to_others


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_files_of_a_store_in_a_home_are_private_also_where_the_home_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HEADRACE_HOME", str(home))
    FileStore(str(home / "checkpoints" / "job")).write("state/1.parquet", b"rows")
    assert FileStore(f"file://{home}/checkpoints/job").put_if_absent("journal/1.json", b"{}")
    assert mode_of(home) == 0o755
    assert open_to_others(home / "checkpoints") == []


def test_files_of_a_store_elsewhere_keep_the_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    FileStore(str(tmp_path / "kept" / "savepoint")).write("state/1.parquet", b"rows")
    folders = [tmp_path / path for path in ("kept", "kept/savepoint", "kept/savepoint/state")]
    assert [mode_of(folder) for folder in folders] == [0o755] * 3
    assert mode_of(folders[-1] / "1.parquet") == 0o644


def test_a_worker_of_another_home_keeps_a_job_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "coordinator" / "job"
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "coordinator"))
    FileStore(str(folder)).write("journal/1.json", b"{}")
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "worker"))
    FileStore(str(folder)).write("state/1.parquet", b"rows")
    assert open_to_others(folder) == []
