"""A submission: its key, its file form, the code that is shipped with it."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.client import submission
from headrace.client.requests import CodeArchive
from headrace.client.submission import (
    APPLICATION_VARIABLE,
    application_key,
    file_form,
    given_code,
    job_code,
    limited,
    own_code,
)
from headrace.core.errors import UserError
from headrace.spec.reading.read import pipeline_from_dict


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program has submitted nothing yet."""
    monkeypatch.setattr(submission, "_submissions", type(submission._submissions)())


def test_submissions_are_numbered_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(APPLICATION_VARIABLE, str(os.getppid()))
    assert [application_key(name) for name in ("a", "b", "a")] == ["a/1", "b/1", "a/2"]


def test_only_the_program_of_an_attendant_has_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(APPLICATION_VARIABLE, raising=False)
    assert application_key("a") is None
    # that of its parent: this is a child of the program
    monkeypatch.setenv(APPLICATION_VARIABLE, "1")
    assert application_key("a") is None


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def members(archive: CodeArchive | None) -> list[str]:
    assert archive is not None
    with tarfile.open(fileobj=io.BytesIO(archive.content)) as tar:
        return sorted(tar.getnames())


def test_a_module_travels_with_what_it_imports_from_its_folder(tmp_path: Path) -> None:
    files = {
        "functions.py": "import numpy, rates\nfrom shop.prices import price\nfrom . import nothing\n",
        "rates.py": "def late():\n    import deep\n",
        "deep.py": "",
        "unrelated.py": "raise SystemExit",
        "shop/__init__.py": "",
        "shop/prices.py": "from shop import tables\n",
        "shop/tables.csv": "a,b",
        "shop/__pycache__/prices.pyc": "",
        "shop/.cache/x": "",
        "data.jsonl": "",
    }
    write(tmp_path, files)
    own = own_code(tmp_path, ["functions", "polars.dataframe"])
    assert members(own) == [
        "deep.py",
        "functions.py",
        "rates.py",
        "shop/__init__.py",
        "shop/prices.py",
        "shop/tables.csv",
    ]
    assert own == own_code(tmp_path, ["functions"]), "equal code has equal bytes"


def test_packages_without_init_and_modules_that_do_not_parse(tmp_path: Path) -> None:
    write(tmp_path, {"plain/a.py": "import broken", "plain/b.txt": "", "broken.py": "def (", "numbers/x.txt": ""})
    assert members(own_code(tmp_path, ["plain.a", "numbers"])) == ["broken.py", "plain/a.py", "plain/b.txt"]


def test_nothing_of_the_folder_is_needed(tmp_path: Path) -> None:
    write(tmp_path, {"functions.py": ""})
    assert own_code(tmp_path, []) is None
    assert own_code(tmp_path, ["polars"]) is None


def test_named_files_and_folders(tmp_path: Path) -> None:
    write(tmp_path, {"one.py": "x = 1", "lib/two.py": "", "lib/pack/__init__.py": ""})
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as made:
        made.writestr("weights/a.bin", b"\x00\x01")
    one, lib, zipped, unpacked = given_code(
        [f"{tmp_path}/one.py,{tmp_path}/lib", f"{tmp_path}/model.zip"], [f"{tmp_path}/model.zip"]
    )
    assert (one.name, one.content) == ("one.py", b"x = 1")
    assert (lib.name, members(lib)) == ("lib.tar.gz", ["pack/__init__.py", "two.py"])
    assert (zipped.name, zipped.content) == ("model.zip", (tmp_path / "model.zip").read_bytes())
    assert (unpacked.name, members(unpacked)) == ("model.tar.gz", ["weights/a.bin"])


@pytest.mark.parametrize(
    ("py_files", "archives", "message"),
    [
        (["gone.py"], [], "--py-files gone.py cannot be read: No such file"),
        (["data.csv"], [], "is no module"),
        ([], ["data.csv"], "is no archive"),
        ([], ["bad.zip"], "is no zip file"),
        ([";rm.py"], [], "cannot be a file's name"),
    ],
)
def test_what_cannot_travel_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, py_files: list[str], archives: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"data.csv": "", "bad.zip": "no zip", ";rm.py": ""})
    with pytest.raises(UserError, match=message):
        given_code(py_files, archives)


def test_too_much_code_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"a.py": "import b", "b.py": ""})
    monkeypatch.setattr(submission, "CODE_BYTES_MAX", 10)
    with pytest.raises(UserError, match=r"the largest is a\.py"):
        limited([CodeArchive.of("a.py", b"x" * 11)])
    monkeypatch.setattr(submission, "FILES_MAX", 1)
    with pytest.raises(UserError, match="more than 1 files"):
        own_code(tmp_path, ["a"])
    with pytest.raises(UserError, match="has 2 files"):
        given_code([str(tmp_path)], [])


def test_a_submission_does_not_depend_on_where_it_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"functions.py": ""})
    pipeline = pipeline_from_dict(
        {
            "name": "p",
            "checkpoint": {"storage": "kept"},
            "sources": {"a": {"files": {"path": "in/*.json"}, "format": "json", "schema": {"x": "int64"}}},
            "steps": {"b": {"from": "a", "map": {"function": "functions:f", "schema": {"x": "int64"}}}},
            "sinks": {"c": {"from": "b", "files": {"path": "/out"}, "format": "json"}},
        }
    )
    data = file_form(pipeline)
    assert data["sources"]["a"]["files"]["path"] == f"{tmp_path}/in/*.json"
    assert data["sinks"]["c"]["files"]["path"] == "/out"
    assert data["checkpoint"]["storage"] == f"{tmp_path}/kept"
    assert pipeline.to_dict()["sources"]["a"]["files"]["path"] == "in/*.json"
    assert [each.name for each in job_code(pipeline, tmp_path)] == ["pipeline-code.tar.gz"]
