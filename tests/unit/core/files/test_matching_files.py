"""A path that exists is that file, whatever characters it has; otherwise it is a pattern."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.files.matching_files import matching_files

ODD = (
    "a b.json",
    "100%.json",
    "a%20b.json",
    "x#1.json",
    "a?b.json",
    "data[1].json",
    "*.json",
    "~.json",
    "é.json",
    "!.json",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (*ODD, "data1.json"):
        (tmp_path / name).write_text("{}")
    return tmp_path


@pytest.mark.parametrize("name", ODD)
def test_a_file_that_exists_is_that_file(folder: Path, name: str) -> None:
    assert matching_files(str(folder / name)) == [folder / name]


def test_other_paths_are_patterns(folder: Path) -> None:
    (folder / "*.json").unlink()
    assert matching_files(str(folder / "*.json")) == sorted(folder.iterdir())
    (folder / "data[1].json").unlink()
    assert matching_files(str(folder / "data[1].json")) == [folder / "data1.json"]
    assert matching_files(str(folder / "none.json")) == []


@pytest.mark.parametrize("name", ["data[1]", "*", "a?b", "#", "%41", "a b"])
def test_a_folder_that_exists_is_that_folder(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (name, "data1", "a1b"):
        (tmp_path / each / "deep").mkdir(parents=True)
        (tmp_path / each / "f.json").write_text("{}")
        (tmp_path / each / "deep" / "f.json").write_text("{}")
    own = [tmp_path / name / "deep" / "f.json", tmp_path / name / "f.json"]
    assert matching_files(f"{tmp_path}/{name}/**/*.json") == own
    monkeypatch.chdir(tmp_path)
    assert matching_files(f"{name}/*.json") == [Path(name, "f.json")]
    assert matching_files(f"./{name}/deep/../*.json") == [Path(f"{name}/deep/../f.json")]


def test_folders_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()
    assert matching_files(str(tmp_path / "*.json")) == []
    assert matching_files(str(tmp_path / "a.json")) == []
