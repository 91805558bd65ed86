"""Tasks that fail and executors that are killed: the results are those of a quiet run, and nothing is left of a try
that came to nothing.

Everything on executors of their own (`local-cluster`), with speculation on; `failing` has the faults. That a task is
really tried twice at a time takes hosts of two names: `test_clusters`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.spark.cluster.session import session
from support.spark.home import end_jvm, own_spark_home
from support.spark.trial import Trial, faults_installed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLUSTER = "local-cluster[2,1,1024]"
CONF = {"spark.speculation": "true", "spark.speculation.interval": "100ms", "spark.log.level": "ERROR"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[SparkSession]:
    """Two executors of one core, which find the connectors of the third party."""
    with faults_installed(folder), pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark leaves sockets to the garbage collector
        patch.setenv("SPARK_HOME", str(own_spark_home(folder / "spark")))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("SPARK_LOCAL_DIRS", str(folder / "local"))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        with session("faults", CLUSTER, CONF) as spark:
            yield spark
        end_jvm()


@pytest.fixture
def trial(cluster: SparkSession, folder: Path, tmp_path: Path) -> Trial:
    return Trial(cluster, tmp_path, folder / "faults")


@pytest.mark.full
def test_every_fault_in_one_replay(trial: Trial) -> None:
    faults = {
        "first": "raise",
        # with the executor goes what it has shuffled: tasks before it are run again
        "second": "executor",
        "third": "worker",
        "open": "raise",
        "middle": "executor",
        "end": "worker",
    }
    trial.order(**faults)
    savepoint = trial.run()
    assert trial.taken() == set(faults)
    trial.check(savepoint)
