"""A command's end is told elsewhere, and it prints and ends as it would."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import typer

from headrace.cli.spark.output_copy import end_told
from headrace.spark.cluster.driver_files import DriverEnd


@pytest.mark.parametrize(("code", "told"), [(0, 0), (None, 0), (2, 2), ("why", 1)])
def test_what_it_prints_and_its_exit_code(
    code: int | str | None, told: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = str(tmp_path / "end.json")
    with pytest.raises(SystemExit), end_told(url):
        typer.echo("result")
        typer.echo("progress", err=True)
        sys.exit(code)
    assert DriverEnd.take(url) == DriverEnd(told, "result\n", "progress\n")
    assert capsys.readouterr() == ("result\n", "progress\n")


def test_what_broke_is_told_too(tmp_path: Path) -> None:
    url = str(tmp_path / "end.json")
    with pytest.raises(ZeroDivisionError), end_told(url):
        raise ZeroDivisionError("broken")
    end = DriverEnd.take(url)
    assert end is not None
    assert end.code == 1
    assert "ZeroDivisionError: broken" in end.err


def test_a_command_ends_as_it_does_though_that_cannot_be_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    with end_told(str(tmp_path / "file" / "end.json")):
        pass
    assert "the end is not told at" in capsys.readouterr().err
