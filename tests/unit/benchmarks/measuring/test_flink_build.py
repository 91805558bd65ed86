"""What Flink's build needs is named where it is missing, with the way to get it."""

from __future__ import annotations

from pathlib import Path

import pytest
from measuring import flink_build
from measuring.flink_build import find_tools

from headrace.core.errors import ExternalError
from headrace_dev.broker.java import Java


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a Java without a compiler; nothing else is on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    java = Java(program=folder / "java", major=17, version="17.0.1", origin="PATH")
    java.program.touch()
    monkeypatch.setattr(flink_build, "find_java", lambda: java)
    return folder


def make_program(path: Path) -> None:
    path.touch(mode=0o755)


def test_everything_that_is_missing_is_named(runtime: Path) -> None:
    with pytest.raises(ExternalError, match=r"no mvn on PATH .*apt install maven.* no javac beside .*java") as refused:
        find_tools()
    assert "WITHOUT=flink" in str(refused.value)


def test_a_runtime_is_no_development_kit(runtime: Path) -> None:
    make_program(runtime / "mvn")
    with pytest.raises(ExternalError, match="without a JDK: no javac"):
        find_tools()


def test_maven_and_a_development_kit_are_enough(runtime: Path) -> None:
    make_program(runtime / "mvn")
    make_program(runtime / "javac")
    assert find_tools().maven == runtime / "mvn"
