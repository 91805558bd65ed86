"""The `headrace` command: mounts one module per verb.

A start imports only the called verb: `headrace --help` shows the table below. A verb imports its needs when it runs, so
that `run` can set the environment before polars loads.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Annotated, NamedTuple

import typer

WORKER_ROLE = "headrace-worker"
"""The name of a worker's process in lists of processes."""
_COMPLETION_VARIABLE = "_HEADRACE_COMPLETE"
"""The shell sets it when it requests completions."""


class _Verb(NamedTuple):
    """A command, or a group of them if `attribute` is a Typer, and its module in `headrace.cli`."""

    name: str
    module: str
    attribute: str
    summary: str = ""
    hidden: bool = False

    def mount(self, app: typer.Typer) -> None:
        """Imports its module and adds it."""
        value = getattr(import_module(f"headrace.cli.{self.module}"), self.attribute)
        if isinstance(value, typer.Typer):
            app.add_typer(value, short_help=self.summary)
        else:
            app.command(self.name, short_help=self.summary, hidden=self.hidden)(value)

    def name_only(self, app: typer.Typer) -> None:
        """Adds a command with its name that does nothing."""
        app.command(self.name, short_help=self.summary, hidden=self.hidden)(_nothing)


VERBS = (
    _Verb("demo", "development.demo", "demo", "see it work: real flights, a real broker"),
    _Verb("init", "pipelines.init", "init", "make a small project that runs at once"),
    _Verb("doctor", "development.doctor", "doctor", "check this host and what a pipeline needs"),
    _Verb("dev", "development.dev", "dev", "run a pipeline anew whenever its file is saved"),
    _Verb("dev-run", "development.dev_run", "dev_run", "one run of `dev`", hidden=True),
    _Verb("run", "runs.run", "run", "run a pipeline on this host"),
    _Verb("runs", "runs.runs", "app", "what runs of this host kept, to take up or delete"),
    _Verb("replay", "spark.replay", "replay", "run a pipeline over a range of its sources, on Spark"),
    _Verb("verify", "spark.verify", "verify", "run a range on both engines and compare the rows"),
    _Verb("test", "pipelines.test", "test", "run the tests inside a pipeline file"),
    _Verb("validate", "pipelines.validate", "validate", "check a pipeline, run nothing"),
    _Verb("explain", "pipelines.explain", "explain", "show what a pipeline does, and its plan"),
    _Verb("preview", "pipelines.preview", "preview", "show the first rows of a node"),
    _Verb("infer", "pipelines.infer", "infer", "make a schema from a topic or a file"),
    _Verb("connectors", "pipelines.connectors", "connectors", "list connectors, or show one's fields"),
    _Verb("functions", "pipelines.functions", "functions", "list the functions of expressions, or show one"),
    _Verb("steps", "reference.steps", "steps", "list verbs of steps and windows, or show one"),
    _Verb("docs", "reference.docs", "docs", "list the pages of the documentation, or print one"),
    _Verb("archive", "output.archive", "archive", "keep topics as Parquet files, as a pipeline"),
    _Verb("submit", "submission.submit", "submit", "give a pipeline to a cluster"),
    _Verb("list", "jobs.jobs", "jobs", "list the jobs of a cluster"),
    _Verb("status", "jobs.status", "status", "show a job: nodes, rows, lag, last checkpoint"),
    _Verb("logs", "jobs.logs", "logs", "show what a job's processes logged"),
    _Verb("checkpoints", "jobs.checkpoints", "checkpoints", "list the checkpoints of a job"),
    _Verb("savepoint", "jobs.savepoint", "savepoint", "keep a job's state for later"),
    _Verb("stop", "jobs.stop", "stop", "stop a job at a cut, to go on from there"),
    _Verb("cancel", "jobs.cancel", "cancel", "end a job at once"),
    _Verb("rescale", "jobs.rescale", "rescale", "run a job on with another parallelism"),
    _Verb("upgrade", "submission.upgrade", "upgrade", "run another pipeline on from a job's state"),
    _Verb("audit", "output.audit", "audit", "prove a job's output against what it wrote"),
    _Verb("coordinator", "cluster.coordinator", "coordinator", "run a coordinator in the foreground"),
    _Verb("worker", "cluster.worker", "worker", "run a worker in the foreground"),
    _Verb("attend", "cluster.attend", "attend", "attend the cluster of one job", hidden=True),
    _Verb(WORKER_ROLE, "cluster.worker", "worker", hidden=True),
    _Verb("operator", "cluster.operator", "operator", "run the Kubernetes operator in the foreground"),
    _Verb("cluster", "cluster.cluster", "app", "a session cluster on this host"),
    _Verb("ui", "cluster.ui", "ui", "serve the page of a cluster"),
    _Verb("state", "output.state", "app", "look inside a checkpoint or savepoint"),
    _Verb("kafka", "development.kafka", "app", "a development broker, and a look at any"),
    _Verb("transactions", "output.transactions", "app", "see and end what jobs left open"),
    _Verb("dead-letters", "output.dead_letters", "app", "look at diverted rows, send them again"),
)

app: typer.Typer
"""The command with every verb; made on first use. `main` does not use it."""


def __getattr__(name: str) -> object:
    """Makes `app` on first use."""
    if name == "app":
        return _whole()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _print_version(asked: bool) -> None:
    if asked:
        from headrace import __version__

        typer.echo(f"headrace {__version__}")
        raise typer.Exit


def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Kafka-native stream processing for Python: pipelines in YAML or Python, event time, exact results."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        # typer, which has begun to run the command, turns KeyboardInterrupt into an exit code; while it was building
        # the command it would have left a stack trace
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _nothing() -> None:
    """Stands in for a verb that was not called."""


def _root() -> typer.Typer:
    bare = typer.Typer(
        name="headrace",
        help="Kafka-native stream processing for Python: pipelines in YAML or Python, event time, exact results.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help: loading rich would take as long as all the rest
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    bare.callback()(root)
    return bare


@cache
def _whole() -> typer.Typer:
    return _mounted(VERBS)


def _mounted(verbs: Iterable[_Verb]) -> typer.Typer:
    made = _root()
    for verb in verbs:
        verb.mount(made)
    return made


def _called(first: str | None) -> typer.Typer:
    """Returns the command with only the verbs that a command line with this first argument needs."""
    if _COMPLETION_VARIABLE in os.environ:
        return _whole()
    verbs = [verb for verb in VERBS if verb.name == first]
    if verbs:
        return _mounted(verbs)
    # help, the version or a misspelt verb: names are enough; commands with their options take longer than all the rest
    listed = _root()
    for verb in VERBS:
        verb.name_only(listed)
    return listed


def _without_token(arguments: list[str]) -> list[str]:
    """Returns a worker's arguments without its token, which moves into the environment: every user can read command
    lines.
    """
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        flag, equals, value = argument.partition("=")
        if flag == "--token":
            os.environ["HEADRACE_TOKEN"] = value if equals else next(rest, "")
        else:
            kept.append(argument)
    return kept


def main() -> None:
    """Runs the command that `sys.argv` names."""
    # set before numpy loads: OpenBLAS's threads, which nothing here uses, spin when they start
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if sys.argv[1:2] == ["worker"] and not {"-h", "--help"} & set(sys.argv):
        from headrace.core.settings import Home

        # replaces this process, so that role and home are in its command line
        os.environ["HEADRACE_HOME"] = str(Home.from_environment().root)
        os.execv(sys.executable, [sys.executable, "-m", "headrace", WORKER_ROLE, *_without_token(sys.argv[2:])])
    from headrace.core.concealing import conceal_standard_error

    conceal_standard_error()
    _called(next(iter(sys.argv[1:]), None))(prog_name="headrace")
