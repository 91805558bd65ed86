"""The `headrace` command: mounts one module a verb.

What a verb needs is imported when it runs: `headrace --help` must answer at once, and `run` sets the environment
before polars loads.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from headrace.cli import (
    archive,
    audit,
    cancel,
    checkpoints,
    cluster,
    connectors,
    coordinator,
    dead_letters,
    demo,
    explain,
    infer,
    init,
    jobs,
    kafka,
    logs,
    preview,
    replay,
    rescale,
    run,
    savepoint,
    state,
    status,
    stop,
    submit,
    test,
    transactions,
    upgrade,
    validate,
    verify,
    worker,
)

WORKER_ROLE = "headrace-worker"
"""What a worker's process is called in lists of processes."""

app = typer.Typer(
    name="headrace",
    help="Kafka-native stream processing for Python: pipelines in YAML or Python, event time, exact results.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: loading rich would take as long as all the rest
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        from headrace import __version__

        typer.echo(f"headrace {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Kafka-native stream processing for Python: pipelines in YAML or Python, event time, exact results."""


app.command("demo", short_help="see it work: real flights, a real broker")(demo.demo)
app.command("init", short_help="make a small project that runs at once")(init.init)
app.command("run", short_help="run a pipeline on this host")(run.run)
app.command("replay", short_help="run a pipeline over a range of its sources, on Spark")(replay.replay)
app.command("verify", short_help="run a range on both engines and compare the rows")(verify.verify)
app.command("test", short_help="run the tests inside a pipeline file")(test.test)
app.command("validate", short_help="check a pipeline, run nothing")(validate.validate)
app.command("explain", short_help="show what a pipeline does, and its plan")(explain.explain)
app.command("preview", short_help="show the first rows of a node")(preview.preview)
app.command("infer", short_help="make a schema from a topic or a file")(infer.infer)
app.command("connectors", short_help="list connectors, or show one's fields")(connectors.connectors)
app.command("archive", short_help="keep topics as Parquet files, as a pipeline")(archive.archive)
app.command("submit", short_help="give a pipeline to a cluster")(submit.submit)
app.command("list", short_help="list the jobs of a cluster")(jobs.jobs)
app.command("status", short_help="show a job: nodes, rows, lag, last checkpoint")(status.status)
app.command("logs", short_help="show what a job's processes logged")(logs.logs)
app.command("checkpoints", short_help="list the checkpoints of a job")(checkpoints.checkpoints)
app.command("savepoint", short_help="keep a job's state for later")(savepoint.savepoint)
app.command("stop", short_help="stop a job at a cut, to go on from there")(stop.stop)
app.command("cancel", short_help="end a job at once")(cancel.cancel)
app.command("rescale", short_help="run a job on with another parallelism")(rescale.rescale)
app.command("upgrade", short_help="run another pipeline on from a job's state")(upgrade.upgrade)
app.command("audit", short_help="prove a job's output against what it wrote")(audit.audit)
app.command("coordinator", short_help="run a coordinator in the foreground")(coordinator.coordinator)
app.command("worker", short_help="run a worker in the foreground")(worker.worker)
app.command(WORKER_ROLE, hidden=True)(worker.worker)
app.add_typer(cluster.app)
app.add_typer(state.app)
app.add_typer(kafka.app)
app.add_typer(transactions.app)
app.add_typer(dead_letters.app)


def main() -> None:
    """The entry point of the `headrace` script."""
    if sys.argv[1:2] == ["worker"] and not {"-h", "--help"} & set(sys.argv):
        from headrace.core.settings import Home

        # in place of this process, so that role and home stand where lists of processes show them
        os.environ["HEADRACE_HOME"] = str(Home.from_environment().root)
        os.execv(sys.executable, [sys.executable, "-m", "headrace", WORKER_ROLE, *sys.argv[2:]])
    app(prog_name="headrace")
