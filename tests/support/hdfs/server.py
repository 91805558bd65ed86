"""Servers and commands of Hadoop as processes of their own, which end with this one, whatever becomes of it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace_dev.broker.java import find_java
from headrace_dev.broker.process import BrokerProcess, start_leashed
from support.patience import WAIT_SECONDS
from support.yarn.jars import classpath

NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"
HA_ADMIN = "org.apache.hadoop.hdfs.tools.DFSHAAdmin"
_LOGGING = """\
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n%ex
"""


def _command(conf: Path, main: str, *arguments: str, java_options: Sequence[str] = ()) -> list[str]:
    java = find_java()
    logging = conf / "log4j2.properties"
    logging.write_text(_LOGGING)
    return [
        *(str(java.program), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true"),
        *(f"-Dlog4j2.configurationFile={logging.as_uri()}", *java_options),
        *("-cp", os.pathsep.join([str(conf), *map(str, classpath(java))]), main, *arguments),
    ]


def run_hadoop(conf: Path, main: str, *arguments: str, java_options: Sequence[str] = ()) -> str:
    """Runs a command to its end; returns its output."""
    command = _command(conf, main, *arguments, java_options=java_options)
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False, cwd=conf)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass
class Server:
    """A NameNode or DataNode that is started, killed, and suspended. conf: its settings; log: of all its processes."""

    conf: Path
    main: str
    log: Path
    java_options: Sequence[str] = ()
    _process: BrokerProcess | None = field(default=None, init=False)

    def start(self) -> None:
        assert self._process is None
        command = _command(self.conf, self.main, java_options=self.java_options)
        self._process = start_leashed(command, data=self.conf, log=self.log, environment=dict(os.environ))

    def kill(self) -> None:
        """As a crash does. Ends a suspended one, too."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def suspend(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)
