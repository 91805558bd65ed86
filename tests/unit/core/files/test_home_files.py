"""Folders and files for their owner alone, under the widest umask; and which folders hold such files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.core.files.home_files import is_private, make_private_folder, private_opener, replace_file
from support.storage.permissions import mode_of


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def test_each_missing_folder_is_private_and_others_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "wide").mkdir()
    for _ in range(2):
        make_private_folder(tmp_path / "wide" / "a" / "b")
    assert [mode_of(tmp_path / "wide" / path) for path in ("", "a", "a/b")] == [0o777, 0o700, 0o700]


def test_a_file_on_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        make_private_folder(tmp_path / "file" / "a")


def test_a_new_file_is_private(tmp_path: Path) -> None:
    with open(tmp_path / "new", "wb", opener=private_opener) as file:
        file.write(b"a")
    assert mode_of(tmp_path / "new") == 0o600


def test_what_lies_below_the_home_is_private_whatever_its_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, link = tmp_path / "home", tmp_path / "link"
    (home / "checkpoints").mkdir(parents=True)
    link.symlink_to(home)
    monkeypatch.setenv("HEADRACE_HOME", str(home))
    for folder in (home, home / "checkpoints", home / "none" / "yet", link / "checkpoints", home / "x" / ".."):
        assert is_private(folder)
    for folder in (tmp_path / "home2", tmp_path / "none"):
        assert not is_private(folder)
    monkeypatch.setenv("HEADRACE_HOME", str(link))
    assert is_private(home / "checkpoints")


def test_a_folder_that_others_cannot_enter_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "another"))
    make_private_folder(tmp_path / "of_a_coordinator" / "checkpoints")
    assert is_private(tmp_path / "of_a_coordinator" / "checkpoints")
    (tmp_path / "shared").mkdir(mode=0o750)
    assert not is_private(tmp_path / "shared")


def test_threads_that_replace_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    file = tmp_path / "file"
    texts = [f"{number}\n".encode() * 1_000 for number in range(8)]

    def replace(text: bytes) -> bool:
        for _ in range(50):
            replace_file(file, text)
        return file.read_bytes() in texts

    with ThreadPoolExecutor(len(texts)) as threads:
        assert all(threads.map(replace, texts))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
