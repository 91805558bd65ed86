"""The JVM that a Spark driver of ours runs in: started quietly. Knows how Spark starts one, and nothing of replays.

What it says while it starts (advice, its own settings) is kept for the case that it does not come up. From then on
everything goes to stderr: what user code prints, and errors of Spark. A log4j2 configuration is given to it, unless the
user has one.
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
    """Raises UserError where there is no Java to start."""
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        raise UserError(f"there is no Java at JAVA_HOME={home}", remedy="Spark needs Java 17 or newer: set JAVA_HOME")
    if not home and shutil.which("java") is None:
        raise UserError("there is no Java here", remedy="Spark needs Java 17 or newer: install it, or set JAVA_HOME")


class Voice:
    """What a JVM says on stderr: kept until it is up, afterwards passed on."""

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
        """From here on everything is passed on."""
        self._up.set()

    def last_words(self, *, ended: bool) -> str:
        """What it has said so far. ended: it is gone, so there is no more to come."""
        if ended:
            self._thread.join(5)
        return "".join(self._kept)


@contextmanager
def quiet_settings(chosen: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Settings that bring the log4j2 configuration to the driver; nothing where the user has one. The file is there
    while inside: Spark reads it as it starts."""
    given = chosen.get(JAVA_OPTIONS, "")
    if "LOG4J_CONFIGURATION_FILE" in os.environ or any(name in given for name in LOG4J_CHOICES) or _configured():
        yield {}
        return
    with TemporaryDirectory(prefix="headrace-spark-") as folder:
        file = Path(folder) / "log4j2.properties"
        file.write_text(LOG4J, encoding="utf-8")
        yield {JAVA_OPTIONS: f'{given} "-D{LOG4J_CHOICES[0]}={file}"'.strip()}


def _configured() -> bool:
    """Whether the Spark installation has a log4j2 configuration of its own."""
    folders = [os.environ.get("SPARK_CONF_DIR"), *(f"{home}/conf" for home in [os.environ.get("SPARK_HOME")] if home)]
    return any((Path(folder) / "log4j2.properties").exists() for folder in folders if folder)


def launch(conf: SparkConf, voice: Voice) -> None:
    """Starts the JVM of this process; Spark finds it. Raises what pyspark raises."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    logging.getLogger().addFilter(_unless_interrupted)
    try:
        gateway = launch_gateway(conf, {"stderr": voice.end})
    finally:
        os.close(voice.end)
    SparkContext._ensure_initialized(gateway=gateway)


def _unless_interrupted(record: logging.LogRecord) -> bool:
    """py4j logs, with a stack trace, that it was interrupted as it waited for the JVM; it raises the error as well."""
    return not (record.name == "root" and str(record.msg).endswith("while sending command."))
