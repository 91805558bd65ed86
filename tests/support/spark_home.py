"""Spark sessions of tests that are not plain `local[2]`: an installation whose work folders are the test's own, and
the end of a driver's JVM.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyspark


def own_spark_home(folder: Path) -> Path:
    """A SPARK_HOME in `folder` that is the installed one, but for what executors write."""
    installed = Path(pyspark.__file__).parent
    folder.mkdir()
    for part in ("bin", "jars", "python", "sbin"):
        (folder / part).symlink_to(installed / part)
    return folder


def end_jvm() -> None:
    """The JVM outlives its session and would be met, with that session's settings, by the next one."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    process = gateway.proc
    gateway.shutdown()
    process.stdin.close()  # the JVM ends with its standard input
    process.wait(30)
    SparkContext._gateway = None
    SparkContext._jvm = None
    os.environ.pop("PYSPARK_GATEWAY_PORT", None)
