"""A Spark session for tests: two cores of this process's host, loopback only, everything it writes below a temp folder.

One for each module: `spark`. Workers of Spark run this interpreter and import headrace as installed.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.spark.session import ALWAYS
from support.spark_home import end_jvm
from support.spark_settings import spark_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
TIMEOUT_S = 1_800
"""For a test of this folder that says nothing else: it may start Spark, a broker and a cluster on a busy machine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives the tests of this folder their time; pyspark leaves sockets to the garbage collector, which comes in any
    of them."""
    here = Path(__file__).parent
    for item in items:
        if not item.path.is_relative_to(here):
            continue
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


def settings(folder: Path) -> dict[str, str]:
    """What a session of tests is configured with; `folder` is for what it writes."""
    return {
        **ALWAYS,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
    }


@pytest.fixture(scope="module", autouse=True)
def settings_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For this module's sessions and those of commands that it starts."""
    with spark_settings(tmp_path_factory.mktemp("settings") / "conf"):
        yield


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session of two cores, stopped at the module's end."""
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark has an opinion on the pandas that is installed, which nothing uses
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", LOOPBACK)
        patch.setenv("SPARK_LOCAL_DIRS", str(folder / "local"))
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").appName("headrace-tests")
        for name, value in settings(folder).items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        yield session
        session.stop()
        end_jvm()
