"""The common part of commands that run on Spark: master and settings, travelling code, progress."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headrace.spark.cluster.packaging import Packages
    from headrace.spec.pipeline import Pipeline

EVERY_S = 5.0
"""Interval of progress lines that do not replace each other."""
INTERRUPTED = 130

Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Spark master: local[N], spark://.., yarn, k8s://.., sc://... Default: spark-submit's, else local[*].",
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark: spark.executor.cores=2."),
]
SparkPyFiles = Annotated[
    list[str] | None,
    typer.Option("--py-files", metavar="PATH,..", help="Modules (.py, .zip, .whl) for the tasks, as of spark-submit."),
]
SparkArchives = Annotated[
    list[str] | None,
    typer.Option(
        "--archives",
        metavar="PATH[#NAME],..",
        help="Archives that are unpacked where tasks run. NAME `environment`: it has their Python.",
    ),
]
DeployMode = Annotated[
    str,
    typer.Option("--deploy-mode", metavar="MODE", help="client: the driver is this process. cluster: spark-submit."),
]
BackEndName = Annotated[
    str, typer.Option("--back-end", metavar="NAME", help="rdd, or dataframe (needs pandas) where there are no RDDs.")
]
AllowLocalStorage = Annotated[
    bool,
    typer.Option("--allow-local-storage", help="Allow a folder as storage: it is a mount of all executors."),
]


def settings_of(given: Sequence[str] | None) -> dict[str, str]:
    """Returns `key=value` texts as a mapping. Raises UserError."""
    from headrace.core.errors import UserError

    settings: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UserError(f"--conf {text} is no setting", remedy="write --conf spark.executor.memory=4g")
        settings[name] = value
    return settings


def one_of(option: str, value: str, choices: Sequence[str]) -> str:
    """Returns the value of an option with few values. Raises UserError."""
    from headrace.core.errors import UserError

    if value not in choices:
        raise UserError(f"{option} {value}: there is no such thing", remedy=f"it takes {' or '.join(choices)}")
    return value


def quiet_driver() -> None:
    """Called before pyspark is imported: one thread of polars, and no warnings about libraries that Headrace does not
    use.
    """
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")


@contextmanager
def travelling(
    pipeline: Pipeline, folder: Path, packages: Packages, *, master: str | None, chosen: Mapping[str, str]
) -> Iterator[dict[str, str]]:
    """Settings of Spark for a driver here, with what tasks need of this host; if tasks run elsewhere, also the
    pipeline's own modules. The packed files exist until the context ends.
    """
    from headrace.spark.cluster.packaging import PYTHON
    from headrace.spark.cluster.session import is_local, submitted

    elsewhere = submitted() if master is None else not is_local(master)
    with TemporaryDirectory(prefix="headrace-code-") as made:
        if elsewhere:
            packages = packages.with_own_code(pipeline, folder, Path(made))
            python = packages.python()
            if python is not None:
                os.environ[PYTHON] = python
        yield packages.settings(chosen)


class Teller:
    """Prints to stderr: lines that stay, and one of progress, in place on a terminal, else now and then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tty = sys.stderr.isatty()
        self._due_s = time.monotonic() + EVERY_S
        self._open = False
        self.said = False
        """Whether anything was printed: then the job has begun."""

    def say(self, text: str) -> None:
        """Prints a line that stays."""
        with self._lock:
            self.said = True
            self._close()
            typer.echo(text, err=True)

    def tell(self, text: str) -> None:
        """Prints a line of progress."""
        with self._lock:
            if self._tty:
                typer.echo(f"\r\x1b[2K{text}", nl=False, err=True)
                self._open = True
            elif time.monotonic() >= self._due_s:
                self._due_s = time.monotonic() + EVERY_S
                typer.echo(text, err=True)

    def end(self) -> None:
        """Ends the progress line."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._open:
            typer.echo("\r\x1b[2K", nl=False, err=True)
            self._open = False


BEGINS_ANEW = "the same command begins anew, or publishes what was decided already"
"""The hint after an interrupted replay."""


@contextmanager
def interruptible(teller: Teller, what_next: str) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the work inside (Spark cancels its jobs), and the command, with a hint."""
    import signal

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        teller.say(f"interrupted: {what_next}")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        teller.end()
        signal.signal(signal.SIGTERM, before)
