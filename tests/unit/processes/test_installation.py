"""What counts as a change of the code that an import path has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.processes.installation import fingerprint


def _package(folder: Path) -> None:
    (folder / "package").mkdir()
    (folder / "package/__init__.py").touch()


@pytest.mark.parametrize(
    "install",
    [
        _package,
        lambda folder: (folder / "module.py").touch(),
        lambda folder: (folder / "native.so").touch(),
        lambda folder: (folder / "editable.pth").touch(),
        lambda folder: (folder / "package-2.0.dist-info").mkdir(),
    ],
)
def test_an_installed_package_changes_it(tmp_path: Path, install: object) -> None:
    before = fingerprint([str(tmp_path)])
    assert callable(install)
    install(tmp_path)
    assert fingerprint([str(tmp_path)]) != before


def test_a_replaced_module_changes_it(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("a = 1")
    before = fingerprint([str(tmp_path)])
    (tmp_path / "new").write_text("a = 2")
    os.replace(tmp_path / "new", tmp_path / "module.py")  # noqa: PTH105 - as installers do
    assert fingerprint([str(tmp_path)]) != before


def test_data_that_is_written_there_does_not(tmp_path: Path) -> None:
    _package(tmp_path)
    before = fingerprint([str(tmp_path)])
    (tmp_path / "job.log").touch()
    (tmp_path / "checkpoints").mkdir()
    assert fingerprint([str(tmp_path)]) == before


def test_an_entry_that_does_not_exist_is_left_out(tmp_path: Path) -> None:
    assert fingerprint([str(tmp_path / "nowhere")]) == ()
