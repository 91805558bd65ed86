"""Starts the JVM of a Spark driver without its usual output. Knows nothing of replays.

The JVM's output during its start (advice, its own settings) is kept, and only shown if the start fails. After that, all
of it goes to stderr: the output of user code, and Spark's errors. The JVM gets a log4j2 configuration, unless the user
has one.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from headrace.core.errors import UserError

if TYPE_CHECKING:
    from pyspark import SparkConf

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LINES_KEPT = 200
LOG4J_CHOICES = ("log4j2.configurationFile", "log4j.configurationFile")
"""Java properties that name a configuration."""
LOG4J = """\
# errors only, and of failed tasks none: the command says why it failed
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
logger.python.name = org.apache.spark.api.python
logger.python.level = off
logger.sql.name = org.apache.spark.sql.execution
logger.sql.level = off
"""


def require_java() -> None:
    """Raises UserError if there is no Java to start."""
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        raise UserError(f"there is no Java at JAVA_HOME={home}", remedy="Spark needs Java 17 or newer: set JAVA_HOME")
    if not home and shutil.which("java") is None:
        raise UserError("there is no Java here", remedy="Spark needs Java 17 or newer: install it, or set JAVA_HOME")


class Voice:
    """The stderr of a JVM: kept until the JVM is up, passed on after that."""

    def __init__(self) -> None:
        self._kept: deque[str] = deque(maxlen=_LINES_KEPT)
        self._up = threading.Event()
        reading, self.end = os.pipe()
        """The file descriptor that the JVM writes to."""
        self._thread = threading.Thread(target=self._listen, args=(reading,), name="spark-stderr", daemon=True)
        self._thread.start()

    def _listen(self, reading: int) -> None:
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if self._up.is_set():
                    sys.stderr.write(line)
                    sys.stderr.flush()
                else:
                    self._kept.append(line)

    def came_up(self) -> None:
        """Passes on all output from now on."""
        self._up.set()

    def last_words(self, *, ended: bool) -> str:
        """Returns the kept output. ended: the JVM is gone, so the output is complete."""
        if ended:
            self._thread.join(5)
        return "".join(self._kept)


@contextmanager
def quiet_settings(chosen: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Settings that name the log4j2 configuration, empty if the user has one. The file exists until the context ends:
    Spark reads it as it starts.
    """
    given = chosen.get(JAVA_OPTIONS, "")
    if "LOG4J_CONFIGURATION_FILE" in os.environ or any(name in given for name in LOG4J_CHOICES) or _configured():
        yield {}
        return
    with TemporaryDirectory(prefix="headrace-spark-") as folder:
        file = Path(folder) / "log4j2.properties"
        file.write_text(LOG4J, encoding="utf-8")
        yield {JAVA_OPTIONS: f'{given} "-D{LOG4J_CHOICES[0]}={file}"'.strip()}


def _configured() -> bool:
    """Whether the Spark installation has its own log4j2 configuration."""
    folders = [os.environ.get("SPARK_CONF_DIR"), *(f"{home}/conf" for home in [os.environ.get("SPARK_HOME")] if home)]
    return any((Path(folder) / "log4j2.properties").exists() for folder in folders if folder)


def launch(conf: SparkConf, voice: Voice) -> None:
    """Starts this process's JVM, which Spark then uses. Raises what pyspark raises."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    logging.getLogger().addFilter(_unless_interrupted)
    try:
        gateway = launch_gateway(conf, {"stderr": voice.end})
    finally:
        os.close(voice.end)
    SparkContext._ensure_initialized(gateway=gateway)


def _unless_interrupted(record: logging.LogRecord) -> bool:
    """Drops py4j's log of an interrupted call, with its stack trace: py4j also raises the error."""
    return not (record.name == "root" and str(record.msg).endswith("while sending command."))
