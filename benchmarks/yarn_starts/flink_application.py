"""Flink's application mode on YARN: its command line deploys a cluster for one job.

A cluster's nodes know their Hadoop, and Flink's distribution is one folder. Here that folder is made of the jars of
Maven Central and those of Hadoop's client, and containers are told where the configuration is.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
import zipfile
from collections.abc import Mapping
from pathlib import Path

from measuring.flink_build import FlinkBuild

from headrace.core.errors import ExternalError
from headrace.yarn.client import APPLICATION_TYPE, open_yarn_client
from headrace.yarn.jvm import find_hadoop_client
from yarn_starts.polling import WAIT_S, wait_until

ANSWER_S = 10.0
TAG = "bench-flink"
_OPENED = (
    *("java.lang", "java.lang.reflect", "java.net", "java.io", "java.nio", "sun.nio.ch", "java.text", "java.time"),
    *("java.util", "java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks"),
)
"""Packages that Flink's own configuration opens to it on Java 17."""
_CONFIG = """\
jobmanager.memory.process.size: 1024m
taskmanager.memory.process.size: 1024m
taskmanager.numberOfTaskSlots: 1
parallelism.default: 1
env.java.opts.all: "{opens}"
yarn.flink-dist-jar: {dist}
yarn.tags: {tag}
yarn.application.type: {kind}
containerized.master.env.HADOOP_CONF_DIR: {conf}
containerized.taskmanager.env.HADOOP_CONF_DIR: {conf}
"""
_LOGGING = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
appender.console.name = console
appender.console.type = CONSOLE
appender.console.layout.type = PatternLayout
"""


class FlinkApplication:
    """One application after another. folder: where its distribution is made."""

    def __init__(self, build: FlinkBuild, folder: Path, environment: Mapping[str, str]) -> None:
        hadoop = find_hadoop_client(environment)
        self._java = build.java
        self._opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        self._library, self._job, settings = folder / "lib", folder / "job.jar", folder / "conf"
        for made in (self._library, settings):
            made.mkdir(parents=True)
        self._dist = next(build.jars.glob("flink-yarn-*.jar"))
        jars = [*build.jars.glob("*.jar"), *filter(Path.is_file, map(Path, hadoop.class_path))]
        # Hadoop's of two versions of one library, because it comes later
        for jar in {jar.name.rpartition("-")[0]: jar for jar in jars if jar != self._dist}.values():
            (self._library / jar.name).symlink_to(jar)
        with zipfile.ZipFile(self._job, "w") as packed:
            packed.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\nMain-Class: starts.Numbers\n\n")
            packed.write(build.classes / "starts" / "Numbers.class", "starts/Numbers.class")
        conf, opens = hadoop.conf[0], " ".join(self._opens)
        # of the type that this client lists
        config = _CONFIG.format(opens=opens, dist=self._dist, tag=TAG, kind=APPLICATION_TYPE, conf=conf)
        (settings / "config.yaml").write_text(config)
        (settings / "log4j.properties").write_text(_LOGGING)
        self._conf = conf
        self._environment = {
            **environment,
            "HADOOP_CONF_DIR": str(conf),
            "FLINK_CONF_DIR": str(settings),
            "FLINK_LIB_DIR": str(self._library),
        }

    def measured(self) -> float:
        """Seconds from the start of the command until every task of the job runs. The application is killed then."""
        with open_yarn_client(self._environment) as client:
            began_s = time.monotonic()
            self._submit()
            (report,) = client.live(TAG)
            wait_until(lambda: _runs(report.url), "Flink's job does not run")
            seconds = time.monotonic() - began_s
            client.kill(report.application)
            wait_until(lambda: not client.report(report.application).is_live, f"{report.application} does not end")
        return seconds

    def _submit(self) -> None:
        command = [str(self._java.program), *self._opens, "-cp", f"{self._dist}:{self._library}/*:{self._conf}"]
        command += ["org.apache.flink.client.cli.CliFrontend", "run", "-d", "-t", "yarn-application", str(self._job)]
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=WAIT_S, check=False
        )
        if done.returncode:
            raise ExternalError(f"Flink could not be submitted:\n{(done.stdout + done.stderr)[-3_000:]}")


def _runs(url: str) -> bool:
    """Whether all tasks of a job run, by Flink's REST API."""
    with urllib.request.urlopen(f"{url.rstrip('/')}/jobs/overview", timeout=ANSWER_S) as answer:
        jobs = json.load(answer)["jobs"]
    return any(job["tasks"]["running"] == job["tasks"]["total"] > 0 for job in jobs)
