"""A Spark session for headrace: what it must be told so that our tasks run well, and nothing that users may want to
choose. The only module that starts one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.core.errors import ExternalError, UserError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local"
HERE = "local[*]"
"""Where neither the user nor spark-submit says: all cores of this host."""
ALWAYS = {
    # parallelism comes from tasks: threads of polars under each of them would only get in their way
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
    "spark.python.worker.reuse": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    # reports of tasks are small, but there may be many
    "spark.driver.maxResultSize": "2g",
    # two tries of one share would shut each other out
    "spark.speculation": "false",
}
ON_THIS_HOST = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def settings(master: str | None, chosen: Mapping[str, str]) -> dict[str, str]:
    """All settings: what a user chose wins. master: None where spark-submit may have named one."""
    own = dict(ALWAYS)
    if master is None and not submitted():
        master = HERE
    if master is not None:
        own["spark.master"] = master
        if is_local(master):
            own |= ON_THIS_HOST
    return own | dict(chosen)


def submitted() -> bool:
    """Whether spark-submit has started this process: then it has said where to run."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def is_local(master: str) -> bool:
    """Whether everything runs on this host: in one process, or in several of `local-cluster`."""
    return master.startswith(LOCAL)


@contextmanager
def session(name: str, master: str | None, chosen: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session, stopped at the end. Raises UserError where pyspark is not installed, ExternalError where Spark does
    not start."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as cause:
        raise UserError("pyspark is not installed", remedy="pip install 'headrace[spark]'") from cause
    if not submitted() and (master is None or is_local(master)):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    for key, value in settings(master, chosen).items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except Exception as cause:
        raise ExternalError(
            f"Spark does not start: {cause}", remedy="it needs Java 17 or newer (JAVA_HOME), and --master has to answer"
        ) from cause
    try:
        spark.sparkContext.setLogLevel("ERROR")
        yield spark
    finally:
        spark.stop()
