"""The local Spark session that the tests of one process share: its JVM starts once, not once a module.

It has two cores of this host, loopback only, and writes below one temp folder. Its Python workers run this interpreter
and import headrace as it is installed.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.spark.cluster.session import ALWAYS
from support.spark.home import end_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"


class SharedSpark:
    """Starts the session for the first test that needs it."""

    def __init__(self) -> None:
        self._session: SparkSession | None = None

    def session(self, folder: Path) -> SparkSession:
        """The session. folder: what it writes if it starts now."""
        if self._session is None:
            self._session = _started(folder)
        return self._session

    def end(self) -> None:
        """Ends the session and its JVM, if they run: the next call of `session` starts others."""
        if self._session is not None:
            self._session.stop()
            self._session = None
            end_jvm()


def _started(folder: Path) -> SparkSession:
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark warns of the installed pandas version, and nothing here uses pandas
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", LOOPBACK)
        patch.setenv("SPARK_LOCAL_DIRS", str(folder / "local"))
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").appName("headrace-tests")
        for name, value in _settings(folder).items():
            builder = builder.config(name, value)
        return builder.getOrCreate()


def _settings(folder: Path) -> dict[str, str]:
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
