"""A running spark-submit whose driver runs on the cluster: passes its log on, finds the application's id in it, and
kills the application when the user interrupts the command.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_APPLICATION = re.compile(r"\bapplication_\d+_\d+\b")
_GOES_SECONDS = 10.0
_KILL_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Ended:
    """spark-submit has ended. application: its id on YARN; None: unknown."""

    code: int
    application: str | None


class SubmittedDriver:
    """One submission. `tell` receives the lines of spark-submit's log.

    That is all that it prints. Some of it goes to its stdout: of Hadoop's client, until Spark has set up its log. This
    command's stdout is for the result.
    """

    def __init__(self, command: Sequence[str], tell: Callable[[str], None]) -> None:
        self._command, self._tell = list(command), tell
        self._application: str | None = None

    def run(self) -> Ended:
        """Runs spark-submit to its end. On an interrupt it also kills the application."""
        with subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process:
            try:
                self._listen(process)
                return Ended(process.wait(), self._application)
            except KeyboardInterrupt:
                self._end(process)
                raise

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._recognise(line)
            self._tell(line.rstrip("\n"))

    def _recognise(self, line: str) -> None:
        found = _APPLICATION.search(line)
        if found is not None:
            self._application = found[0]

    def _end(self, process: subprocess.Popen[str]) -> None:
        process.terminate()
        try:
            rest, _ = process.communicate(timeout=_GOES_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            rest, _ = process.communicate()
        for line in (rest or "").splitlines():
            self._recognise(line)
        if self._application is not None:
            self._tell(f"ending {self._application}")
            self._end_on_cluster(self._application)

    def _end_on_cluster(self, application: str) -> None:
        command = kill_command(self._command[0], application)
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_KILL_SECONDS)
            failure = None if done.returncode == 0 else done.stderr.strip()
        except subprocess.TimeoutExpired:
            failure = f"the cluster did not answer within {_KILL_SECONDS:.0f} s"
        if failure is not None:
            self._tell(f"{failure}\nit may go on: yarn application -kill {application}")


def kill_command(spark_submit: str, application: str) -> list[str]:
    """Returns the command that kills a YARN application, with the Hadoop client that Spark ships."""
    spark_class = str(Path(spark_submit).parent / "spark-class")
    return [spark_class, "org.apache.hadoop.yarn.client.cli.ApplicationCLI", "application", "-kill", application]
