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
from support.hadoop.command import hadoop_command
from support.patience import WAIT_SECONDS

NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"
HA_ADMIN = "org.apache.hadoop.hdfs.tools.DFSHAAdmin"


def run_hadoop(conf: Path, main: str, *arguments: str, java_options: Sequence[str] = ()) -> str:
    """Runs a command to its end; returns its output."""
    command = hadoop_command(find_java(), conf, main, *arguments, folder=conf, java_options=java_options)
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
        command = hadoop_command(find_java(), self.conf, self.main, folder=self.conf, java_options=self.java_options)
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
