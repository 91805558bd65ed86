"""Replays on a real YARN cluster: the driver here and there, a Python that travels, an executor that is killed, a
driver that fails, one that is given up; and what is said where no cluster is named.

What an administrator sets once is in a `spark-defaults.conf`; everything else is what docs/spark.md says.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark
import pytest

from headrace.checkpoint.stores.opening import open_store
from support.flows.sent import check_results, write_project
from support.hdfs.cluster import Hdfs
from support.processes.running import Finished, Running, finish, headrace, start, wait_until
from support.spark.packed_python import packed_python
from support.spark.settings import JAVA, SPARK_SECONDS, spark_settings
from support.yarn.cluster import Yarn, yarn_cluster

OVER = ("FINISHED", "FAILED", "KILLED")
EXECUTOR = "YarnCoarseGrainedExecutorBackend"
DEFAULTS = {
    "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent / 'jars'}/*",
    "spark.executor.instances": "1",
    "spark.executor.cores": "2",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.yarn.report.interval": "200ms",
    "spark.yarn.scheduler.initial-allocation.interval": "100ms",
    "spark.yarn.scheduler.heartbeat.interval-ms": "500",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.yarn.am.extraJavaOptions": JAVA,
}


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster, and the Python that is packed for it."""

    yarn: Yarn
    python: Path

    def options(self, *more: str) -> list[str]:
        """Of `headrace replay` there."""
        where = ["--master", "yarn", "--archives", f"{self.python}#environment", "--allow-local-storage"]
        return [*where, "--parallelism", "2", *more]

    def ended(self, process: Running, code: int) -> Finished:
        """Waits for its end, which has to be with that exit code."""
        done = finish(process, SPARK_SECONDS)
        assert done.code == code, f"{done.err}\n{self.yarn.logs(self.last()['id'])}"
        return done

    def last(self) -> dict[str, str]:
        """The newest application."""
        return self.yarn.applications()[-1]

    def outcome(self) -> str:
        """Of the newest application, which is at its end: a driver of ours may be gone before the cluster says so."""
        wait_until(lambda: self.last()["state"] in OVER, "the application is over")
        return self.last()["finalStatus"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("yarn")
    defaults = DEFAULTS | {"spark.yarn.stagingDir": (folder / "staging").as_uri()}
    with (
        spark_settings(folder / "spark-conf", defaults),
        pytest.MonkeyPatch.context() as patch,
        yarn_cluster(folder / "cluster") as yarn,
    ):
        for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "YARN_CONF_DIR", "SPARK_HOME"):
            patch.delenv(name, raising=False)
        patch.setenv("HADOOP_CONF_DIR", str(yarn.conf))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        yield Site(yarn, packed_python(folder / "environment.tar.gz"))


def held_until(path: Path) -> str:
    """A project's module whose function comes to its end when that file is there."""
    return f"""\
import time
from pathlib import Path

from its_helper import same


def as_they_are(rows):
    while not Path({str(path)!r}).exists():
        time.sleep(0.05)
    return same(rows)
"""


def begin(folder: Path, *options: str) -> Running:
    return start(["replay", "pipeline.yaml", "--py-files", "elsewhere/its_helper.py", *options], folder)


def kill_first_executor(site: Site) -> None:
    """Of the newest application, once Python runs below it: then it has a task, which is held."""
    found: list[psutil.Process] = []

    def works() -> bool:
        application = site.last()["id"]
        with suppress(psutil.NoSuchProcess):  # those of an application before come to their end
            executors = [each for each in site.yarn.processes(EXECUTOR) if application in each.cmdline()]
            found[:] = [each for each in executors if each.children(recursive=True)]
        return bool(found)

    wait_until(works, "an executor has a task", SPARK_SECONDS)
    found[0].kill()


@pytest.mark.full
def test_the_driver_here_and_an_executor_killed(site: Site, tmp_path: Path) -> None:
    write_project(tmp_path, module=held_until(tmp_path / "go"), helper=tmp_path / "elsewhere")
    before = len(site.yarn.applications())
    process = begin(tmp_path, *site.options("--json"))
    wait_until(lambda: len(site.yarn.applications()) > before, "it was submitted", SPARK_SECONDS)
    kill_first_executor(site)
    (tmp_path / "go").touch()
    done = site.ended(process, 0)
    assert json.loads(done.out)["rows_in"] == 3_000
    check_results(tmp_path / "out")
    said = [line for line in done.err.splitlines() if not line.startswith(("computing: ", "publishing: ", "level "))]
    assert said == [], "the driver is quiet"
    assert site.outcome() == "SUCCEEDED"


@pytest.mark.turns(3)
def test_the_driver_there(site: Site, tmp_path: Path) -> None:
    write_project(tmp_path, helper=tmp_path / "elsewhere")
    process = begin(tmp_path, *site.options("--deploy-mode", "cluster", "--savepoint", "saved", "--json"))
    done = site.ended(process, 0)
    result = json.loads(done.out)
    assert result["rows_in"] == 3_000
    assert Path(result["savepoint"]).is_relative_to(tmp_path / "saved"), "relative paths are this folder's"
    assert "publishing: " in done.err
    assert not list((tmp_path / "home" / "checkpoints").glob("driver-*")), "what told its end is gone"


@pytest.mark.full
def test_a_driver_there_that_fails_tells_why_and_is_not_tried_again(site: Site, tmp_path: Path) -> None:
    write_project(tmp_path, helper=tmp_path / "elsewhere")
    options = site.options("--deploy-mode", "cluster", "--until", "no/savepoint")
    done = site.ended(begin(tmp_path, *options), 2)
    assert str(tmp_path / "no" / "savepoint") in done.err.rpartition("error: ")[2]
    assert site.outcome() == "FAILED"
    assert site.yarn.attempts(site.last()["id"]) == 1


@pytest.mark.full
def test_ctrl_c_ends_the_driver_there(site: Site, tmp_path: Path) -> None:
    write_project(tmp_path, module=held_until(tmp_path / "never"), helper=tmp_path / "elsewhere")
    before = len(site.yarn.applications())
    process = begin(tmp_path, *site.options("--deploy-mode", "cluster"))
    wait_until(lambda: len(site.yarn.applications()) > before, "it was submitted", SPARK_SECONDS)
    wait_until(lambda: site.last()["state"] in {"ACCEPTED", "RUNNING"}, "the cluster has it")
    process.send_signal(signal.SIGINT)
    site.ended(process, 130)
    wait_until(lambda: site.last()["state"] == "KILLED", "it is ended")
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").rglob("part-*"))


@pytest.mark.full
def test_a_followed_topic_there_goes_on_until_ctrl_c(site: Site, tmp_path: Path) -> None:
    write_project(tmp_path, helper=tmp_path / "elsewhere")
    process = begin(tmp_path, *site.options("--deploy-mode", "cluster", "--follow", "--trigger-interval", "1s"))

    def has_published() -> bool:
        return process.poll() is not None or any((tmp_path / "out").rglob("part-*"))

    wait_until(has_published, "an increment is published", SPARK_SECONDS)
    assert process.poll() is None, finish(process).err
    assert site.last()["state"] == "RUNNING"
    process.send_signal(signal.SIGINT)
    site.ended(process, 130)
    # KILLED, or FINISHED if the driver has come to its own end: its sources have one
    wait_until(lambda: site.last()["state"] in {"KILLED", "FINISHED"}, "it is ended")


@pytest.mark.full
@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_checkpoints_on_hdfs(
    mode: str, site: Site, hdfs: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = tmp_path / "conf"
    shutil.copytree(hdfs.conf, conf)
    shutil.copy(site.yarn.conf / "yarn-site.xml", conf)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(conf))
    file = write_project(tmp_path, helper=tmp_path / "elsewhere")
    document = json.loads(file.read_text())
    storage = hdfs.url(f"replayed-{mode}")
    document["checkpoint"] = {"storage": storage}
    file.write_text(json.dumps(document))
    environments = ("spark.executorEnv", "spark.yarn.appMasterEnv")
    options = [part for name in environments for part in ("--conf", f"{name}.HADOOP_CONF_DIR={conf}")]
    options += ["--master", "yarn", "--archives", f"{site.python}#environment", "--parallelism", "2"]
    saved = hdfs.url("saved")
    done = site.ended(begin(tmp_path, *options, "--deploy-mode", mode, "--savepoint", saved, "--json"), 0)
    result = json.loads(done.out)
    assert (result["rows_in"], site.outcome()) == (3_000, "SUCCEEDED")
    assert result["savepoint"].startswith(f"{saved}/")
    names = [each for each in open_store(saved).list("") if each.endswith(".json") or "manifest" in each]
    assert names, "the savepoint is there"


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_no_cluster_is_named(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    file = write_project(tmp_path, helper=tmp_path / "elsewhere")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"), prepend=os.pathsep)
    done = headrace(["replay", str(file), "--master", "yarn", "--deploy-mode", mode, "--allow-local-storage"], tmp_path)
    assert done.code == 2, done.err
    assert done.err.startswith("error: --master yarn: neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set"), "nothing else"


def test_storage_that_the_cluster_does_not_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    file = write_project(tmp_path, helper=tmp_path / "elsewhere")
    done = headrace(["replay", str(file), "--master", "yarn", "--deploy-mode", "cluster"], tmp_path)
    assert done.code == 2, done.err
    assert done.err.startswith("error: checkpoint storage ")
