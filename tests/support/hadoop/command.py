"""Command lines of Hadoop's servers and tools."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from headrace_dev.broker.java import Java
from support.hadoop.jars import classpath

_LOGGING = """\
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n%ex
"""


def hadoop_command(
    java: Java, conf: Path, main: str, *arguments: str, folder: Path, java_options: Sequence[str] = ()
) -> list[str]:
    """Runs a class of Hadoop with the settings in `conf`. folder: for those of its log."""
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING)
    return [
        *(str(java.program), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true"),
        *(f"-Dlog4j2.configurationFile={logging.as_uri()}", *java_options),
        *("-cp", os.pathsep.join([str(conf), *map(str, classpath(java))]), main, *arguments),
    ]
