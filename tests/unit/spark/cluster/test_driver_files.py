"""What a driver pod takes along in Spark's configuration, and finds there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import typer

from headrace.core.errors import UserError
from headrace.spark.cluster.driver_files import (
    TAIL_CHARACTERS,
    DriverEnd,
    end_told,
    end_url,
    unpack_files,
    write_conf_folder,
)


@pytest.fixture
def application(tmp_path: Path) -> Path:
    path = tmp_path / "app.py"
    path.write_text("print()\n")
    return path


def test_files_arrive_beside_the_users_own_settings(
    tmp_path: Path, application: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, conf, there = tmp_path / "own", tmp_path / "conf", tmp_path / "there"
    (own / "folder").mkdir(parents=True)
    (own / "spark-defaults.conf").write_text("spark.executor.cores 2\n")
    files = {"delays.yaml": b"name: delays", "package/module.py": bytes(range(256))}
    write_conf_folder(conf, own, files, application)
    assert {path.name for path in conf.iterdir()} >= {"spark-defaults.conf", "app.py"}
    for path in conf.iterdir():
        path.read_text(encoding="utf-8")  # config maps hold text
    there.mkdir()
    monkeypatch.chdir(there)
    monkeypatch.setenv("SPARK_CONF_DIR", str(conf))
    assert unpack_files() == there
    assert {name: (there / name).read_bytes() for name in files} == files


def test_a_driver_that_took_none_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert unpack_files() is None


def test_too_much_for_a_config_map(tmp_path: Path, application: Path) -> None:
    with pytest.raises(UserError, match="too much for a driver pod"):
        write_conf_folder(tmp_path / "conf", None, {"large": os.urandom(600_000)}, application)


def test_an_end_is_taken_once(tmp_path: Path) -> None:
    url = end_url(str(tmp_path))
    assert url != end_url(str(tmp_path))
    assert DriverEnd.take(url) is None
    end = DriverEnd(3, '{"rows": 1}\n', "error: away\n")
    end.keep(url)
    assert DriverEnd.take(url) == end
    assert list(tmp_path.iterdir()) == []


def test_of_much_that_was_printed_the_end_is_kept(tmp_path: Path) -> None:
    url = end_url(str(tmp_path))
    DriverEnd(0, "x" * TAIL_CHARACTERS + "last").keep(url)
    kept = DriverEnd.take(url)
    assert kept is not None
    assert len(kept.out) == TAIL_CHARACTERS
    assert kept.out.endswith("last")


def test_what_cannot_be_read_counts_as_nothing(tmp_path: Path) -> None:
    (tmp_path / "end.json").write_text("{")
    assert DriverEnd.take(str(tmp_path / "end.json")) is None


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
