"""Spark sessions of tests that are not plain `local[2]`: an installation whose work folders are the test's own, and
the end of a driver's JVM.
"""

from __future__ import annotations

import gc
import os
import warnings
from pathlib import Path

import pyspark

from support.processes.running import WAIT_SECONDS


def own_spark_home(folder: Path) -> Path:
    """A SPARK_HOME in `folder` that is the installed one, but for what executors write."""
    installed = Path(pyspark.__file__).parent
    folder.mkdir()
    for part in ("bin", "jars", "python", "sbin"):
        (folder / part).symlink_to(installed / part)
    return folder


def end_jvm() -> None:
    """The JVM outlives its session and would be met, with that session's settings, by the next one.

    What pyspark leaves to the garbage collector is collected now, not during another test.
    """
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    process = gateway.proc
    gateway.shutdown()
    process.stdin.close()  # the JVM ends with its standard input
    process.wait(WAIT_SECONDS)
    SparkContext._gateway = None
    SparkContext._jvm = None
    os.environ.pop("PYSPARK_GATEWAY_PORT", None)
    del gateway, process
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
