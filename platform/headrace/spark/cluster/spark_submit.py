"""The `spark-submit` command for a replay whose driver runs on the cluster (`--deploy-mode cluster`), and its process.

The application is `headrace_replay.py`. Its arguments are those of `headrace replay` without those for the cluster.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.core.errors import UserError
from headrace.spark.cluster.packaging import Packages

CLIENT, CLUSTER = "client", "cluster"
WHERE = ("--master", "--deploy-mode", "--py-files", "--archives", "--conf")
"""Options of `headrace replay` that become spark-submit's."""
_APPLICATION = re.compile(r"\bapplication_\d+_\d+\b")
_GOES_SECONDS = 10.0
_KILL_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Submission:
    """One submission. application: path of `headrace_replay.py`; arguments: for it; files: for its working folder."""

    master: str
    application: str
    arguments: tuple[str, ...]
    packages: Packages
    files: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)

    def command(self, spark_submit: str) -> list[str]:
        """Returns the command. Raises UserError if that master runs no Python drivers."""
        if self.master.startswith(("local", "spark://")):
            raise UserError(
                f"--deploy-mode cluster: {self.master} runs no Python drivers",
                remedy="leave it out, or use YARN or Kubernetes",
            )
        python = self.packages.python()
        conf = dict(self.conf)
        if python is not None:
            conf |= {"spark.pyspark.python": python, "spark.yarn.appMasterEnv.PYSPARK_PYTHON": python}
        command = [spark_submit, "--master", self.master, "--deploy-mode", CLUSTER, "--name", "headrace-replay"]
        for option, paths in (
            ("--py-files", self.packages.py_files),
            ("--archives", self.packages.archives),
            ("--files", self.files),
        ):
            command += [option, ",".join(paths)] if paths else []
        for name, value in conf.items():
            command += ["--conf", f"{name}={value}"]
        return [*command, self.application, *self.arguments]


def without(arguments: Sequence[str], options: Iterable[str]) -> list[str]:
    """Returns the arguments without these options and their values, in the form `--option value` or
    `--option=value`.
    """
    dropped = tuple(options)
    left: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument in dropped:
            next(rest, None)
        elif not argument.startswith(tuple(f"{option}=" for option in dropped)):
            left.append(argument)
    return left


def changed(arguments: Sequence[str], changes: Mapping[str, Callable[[str], str]]) -> list[str]:
    """Returns the arguments with these options' values changed, in the form `--option value` or `--option=value`."""
    left: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        option, equals, value = argument.partition("=")
        change = changes.get(option)
        if change is None:
            left.append(argument)
        elif equals:
            left.append(f"{option}={change(value)}")
        else:
            left += [argument, *(change(value) for value in [next(rest, None)] if value is not None)]
    return left


def installed_spark_submit() -> str:
    """Returns the `spark-submit` of $SPARK_HOME, else the one of the pyspark package. Raises UserError."""
    try:
        from pyspark.find_spark_home import _find_spark_home
    except ImportError as cause:
        raise UserError("pyspark is not installed", remedy="pip install 'headrace[spark]'") from cause
    return str(Path(_find_spark_home()) / "bin" / "spark-submit")


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
