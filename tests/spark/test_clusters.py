"""Replays on a real standalone cluster, by `headrace replay` and by spark-submit, and what is said where it cannot be.

Executors run elsewhere as far as they know: what they need of this host has to travel.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pyspark
import pytest

from headrace.spark.cluster.session import session
from support.flows.sent import check_results, write_project
from support.processes.running import headrace
from support.spark.home import end_jvm
from support.spark.settings import SPARK_SECONDS
from support.spark.standalone import StandaloneSpark, standalone_spark
from support.spark.trial import Trial, faults_installed

SMALL = {"spark.executor.memory": "512m", "spark.log.level": "ERROR"}
SPECULATION = SMALL | {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.25",
    "spark.speculation.minTaskRuntime": "500ms",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clusters")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[StandaloneSpark]:
    """Its executors find the connectors of the third party."""
    with faults_installed(folder), pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        with standalone_spark(folder) as running:
            patch.setenv("SPARK_HOME", str(running.home))
            yield running


def conf(settings: dict[str, str]) -> list[str]:
    return [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]


def ran(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A command that starts executors, run to its end."""
    python = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), sys.executable)
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | python | {"HEADRACE_HOME": str(folder / "home"), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=SPARK_SECONDS,
    )


@pytest.mark.full
def test_a_replay_on_a_standalone_cluster(cluster: StandaloneSpark, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headrace", "replay", str(write_project(tmp_path)), "--master", cluster.master]
    done = ran([*command, *conf(SMALL), "--json"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows_in"] == 3_000
    check_results(tmp_path / "out")
    said = [line for line in done.stderr.splitlines() if not line.startswith(("computing: ", "publishing: ", "level "))]
    assert said == [], "the driver is quiet"


@pytest.mark.full  # `test_yarn` has a driver that spark-submit starts
@pytest.mark.parametrize("where", ["local[2]", "standalone"])
def test_a_replay_by_spark_submit(request: pytest.FixtureRequest, where: str, tmp_path: Path) -> None:
    home, master = Path(pyspark.__file__).parent, where
    if where == "standalone":
        cluster: StandaloneSpark = request.getfixturevalue("cluster")
        home, master = cluster.home, cluster.master
    file = write_project(tmp_path)
    application = find_spec("headrace.cli.spark_application.headrace_replay")
    assert application is not None and application.origin is not None
    command = [str(home / "bin" / "spark-submit"), "--master", master, *conf(SMALL)]
    command += ["--py-files", f"{tmp_path / 'mine.py'},{tmp_path / 'its_helper.py'}"]
    done = ran([*command, application.origin, "--", str(file), "--json"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["rows_in"] == 3_000
    check_results(tmp_path / "out")


@pytest.mark.full
def test_a_task_that_is_tried_twice_at_a_time_counts_once_and_shares_never_are(
    cluster: StandaloneSpark, folder: Path, tmp_path: Path
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark leaves sockets to the garbage collector
        with session("speculation", cluster.master, SPECULATION) as spark:
            trial = Trial(spark, tmp_path, folder / "faults")
            trial.order(first="straggle")
            savepoint = trial.run()
        end_jvm()
    assert trial.taken() == {"first"}
    tries = {tuple(line.split()) for line in trial.visits("first")}
    assert max(len({process for task, process in tries if task == of}) for of, _ in tries) == 2
    # stage, partition: a stage for each share
    assert len(trial.visits("open")) == len(set(trial.visits("open"))) == trial.shares()
    trial.check(savepoint)


def test_a_master_that_does_not_answer(tmp_path: Path) -> None:
    done = headrace(["replay", str(write_project(tmp_path)), "--master", "spark://127.0.0.1:9"], tmp_path)
    assert done.code == 3, done.err
    assert done.err.startswith("error: no Spark master answers at spark://127.0.0.1:9"), "and nothing else"


@pytest.mark.full
@pytest.mark.parametrize(("master", "said"), [("local[none]", "Spark knows no such master")])
def test_a_master_that_cannot_be(master: str, said: str, tmp_path: Path) -> None:
    done = headrace(["replay", str(write_project(tmp_path)), "--master", master, "--allow-local-storage"], tmp_path)
    assert done.code == 2, done.err
    assert said in done.err
    assert "WARN" not in done.err
