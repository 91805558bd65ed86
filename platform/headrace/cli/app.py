"""The `headrace` command: mounts one module a verb.

What a verb needs is imported when it runs: `headrace --help` must answer at once, and `run` sets the environment
before polars loads.
"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import connectors, demo, explain, infer, init, kafka, preview, run, test, validate

app = typer.Typer(
    name="headrace",
    help="Kafka-native stream processing for Python: pipelines in YAML or Python, event time, exact results.",
    no_args_is_help=True,
    add_completion=False,
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
app.command("test", short_help="run the tests inside a pipeline file")(test.test)
app.command("validate", short_help="check a pipeline, run nothing")(validate.validate)
app.command("explain", short_help="show what a pipeline does, and its plan")(explain.explain)
app.command("preview", short_help="show the first rows of a node")(preview.preview)
app.command("infer", short_help="make a schema from a topic or a file")(infer.infer)
app.command("connectors", short_help="list connectors, or show one's fields")(connectors.connectors)
app.add_typer(kafka.app)


def main() -> None:
    """The entry point of the `headrace` script."""
    app(prog_name="headrace")
