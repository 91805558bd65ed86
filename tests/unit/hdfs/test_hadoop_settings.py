"""Hadoop's settings, as its programs find them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.errors import UserError
from headrace.hdfs.connection import hadoop_settings, read_settings
from support.hadoop.settings import write_settings


@pytest.fixture(autouse=True)
def no_hadoop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_both_files_are_read_and_the_second_wins(tmp_path: Path) -> None:
    write_settings(tmp_path / "core-site.xml", {"fs.defaultFS": "hdfs://a", "b": "core"})
    write_settings(tmp_path / "hdfs-site.xml", {"b": "hdfs", "c": " spaces "})
    assert read_settings(tmp_path) == {"fs.defaultFS": "hdfs://a", "b": "hdfs", "c": "spaces"}


def test_variables_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_TEST_HOST", "nn1")
    write_settings(
        tmp_path / "core-site.xml",
        {
            "host": "${env.HEADRACE_TEST_HOST}",
            "address": "${host}:${port}",
            "port": "1",
            "unknown": "${nothing}/x",
            "loop": "a${loop}",
        },
    )
    found = read_settings(tmp_path)
    assert (found["address"], found["unknown"]) == ("nn1:1", "${nothing}/x")
    assert found["loop"].endswith("${loop}"), "a value that contains itself ends"


def test_the_folder_is_found_as_hadoop_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hadoop_settings() == {}
    home, own = tmp_path / "home", tmp_path / "own"
    (home / "etc" / "hadoop").mkdir(parents=True)
    own.mkdir()
    write_settings(home / "etc" / "hadoop" / "core-site.xml", {"of": "home"})
    write_settings(own / "core-site.xml", {"of": "own"})
    monkeypatch.setenv("HADOOP_HOME", str(home))
    assert hadoop_settings() == {"of": "home"}
    monkeypatch.setenv("HADOOP_CONF_DIR", str(own))
    assert hadoop_settings() == {"of": "own"}
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "missing"))
    assert hadoop_settings() == {}


def test_a_file_that_is_no_xml_is_named(tmp_path: Path) -> None:
    (tmp_path / "hdfs-site.xml").write_text("<configuration>")
    with pytest.raises(UserError, match=r"hdfs-site\.xml cannot be read") as caught:
        read_settings(tmp_path)
    assert "HADOOP_CONF_DIR" in str(caught.value.remedy)
