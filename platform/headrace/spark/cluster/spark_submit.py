"""The `spark-submit` command for a replay whose driver runs on the cluster (`--deploy-mode cluster`). Pure, but for
looking up installed programs.

The application is `headrace_replay.py`. Its arguments are those of `headrace replay` without those for the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.core.errors import UserError
from headrace.spark.cluster.packaging import Packages

CLIENT, CLUSTER = "client", "cluster"
WHERE = ("--master", "--deploy-mode", "--py-files", "--archives", "--conf")
"""Options of `headrace replay` that become spark-submit's."""


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
