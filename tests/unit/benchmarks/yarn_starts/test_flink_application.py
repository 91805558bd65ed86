"""The distribution of Flink that the benchmark makes of jars."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from measuring.flink_build import FlinkBuild
from yarn_starts.flink_application import FlinkApplication

from headrace_dev.broker.java import Java


def touched(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()
    return folder


def test_its_library_has_each_library_once_and_the_job_is_a_program(tmp_path: Path) -> None:
    classes = touched(tmp_path / "classes" / "starts", "Numbers.class").parent
    jars = touched(tmp_path / "jars", "flink-yarn-2.3.0.jar", "flink-runtime-2.3.0.jar", "slf4j-api-1.7.36.jar")
    hadoop = touched(tmp_path / "hadoop", "hadoop-client-api-3.5.0.jar", "slf4j-api-2.0.17.jar")
    conf = touched(tmp_path / "conf", "yarn-site.xml")
    java = Java(program=touched(tmp_path / "java" / "bin", "java") / "java", major=17, version="17", origin="PATH")
    environment = {
        "HADOOP_CONF_DIR": str(conf),
        "HADOOP_CLASSPATH": os.pathsep.join(map(str, sorted(hadoop.iterdir()))),
        "JAVA_HOME": str(tmp_path / "java"),
    }
    FlinkApplication(FlinkBuild(java, classes, jars), tmp_path / "flink", environment)
    library = {path.name for path in (tmp_path / "flink" / "lib").iterdir() if "py4j" not in path.name}
    assert library == {"flink-runtime-2.3.0.jar", "hadoop-client-api-3.5.0.jar", "slf4j-api-2.0.17.jar"}
    with zipfile.ZipFile(tmp_path / "flink" / "job.jar") as job:
        assert "Main-Class: starts.Numbers" in job.read("META-INF/MANIFEST.MF").decode()
        assert "starts/Numbers.class" in job.namelist()
    assert f"HADOOP_CONF_DIR: {conf}" in (tmp_path / "flink" / "conf" / "config.yaml").read_text()
