"""What a host needs for YARN: found in the named order, or named with a remedy."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from headrace.core.errors import UserError
from headrace.yarn.jvm import conf_folders, find_hadoop_client


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A host with a configuration and a Java that nobody starts."""
    (tmp_path / "conf").mkdir()
    program(tmp_path / "java" / "bin" / "java", "")
    return {"HADOOP_CONF_DIR": str(tmp_path / "conf"), "JAVA_HOME": str(tmp_path / "java"), "PATH": str(tmp_path)}


def program(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_the_jars_of_the_environment_come_before_those_of_pyspark(environment: dict[str, str]) -> None:
    found = find_hadoop_client({**environment, "HADOOP_CLASSPATH": "/opt/hadoop/*:/opt/more.jar"})
    assert found.class_path[:3] == (environment["HADOOP_CONF_DIR"], "/opt/hadoop/*", "/opt/more.jar")
    assert found.class_path[-1].endswith(".jar"), "py4j's"
    assert found.program == Path(environment["JAVA_HOME"], "bin", "java")


def test_the_yarn_command_names_jars(environment: dict[str, str], tmp_path: Path) -> None:
    program(tmp_path / "yarn", 'echo "/etc/hadoop:/opt/yarn/*"')
    found = find_hadoop_client({**environment, "PATH": f"{tmp_path}{os.pathsep}/bin"})
    assert found.class_path[1:3] == ("/etc/hadoop", "/opt/yarn/*")
    program(tmp_path / "yarn", "exit 3")
    with pytest.raises(UserError, match="classpath` fails"):
        find_hadoop_client({**environment, "PATH": f"{tmp_path}{os.pathsep}/bin"})


def test_pyspark_has_jars_too(environment: dict[str, str]) -> None:
    found = find_hadoop_client(environment)
    assert any("hadoop-client-api" in jar for jar in found.class_path)


def test_what_is_missing_is_named(environment: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no configuration"):
        find_hadoop_client({})
    with pytest.raises(UserError, match="is no folder"):
        conf_folders({"YARN_CONF_DIR": str(tmp_path / "none")})
    with pytest.raises(UserError, match="there is no Java"):
        find_hadoop_client({**environment, "JAVA_HOME": str(tmp_path)})
