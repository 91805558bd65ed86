"""Arguments that several commands share, and the output of JSON documents and tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

File = Annotated[
    str, typer.Argument(metavar="FILE", help="The pipeline: a .yaml file, or module.py[:name].", show_default=False)
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Override a field, such as sources.flights.kafka.topic=x."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

Coordinator = Annotated[
    str | None,
    typer.Option(
        "--coordinator",
        envvar="HEADRACE_COORDINATOR",
        metavar="URL",
        help="The cluster. Default: the one in HEADRACE_HOME. HEADRACE_TOKEN has the token of another cluster.",
    ),
]
Job = Annotated[
    str,
    typer.Argument(
        metavar="JOB", help="A job id, a unique prefix of one, or the name of a running job.", show_default=False
    ),
]
Rename = Annotated[
    list[str] | None,
    typer.Option("--rename", metavar="OLD=NEW", help="A node that has another name in the savepoint; repeatable."),
]
AllowDroppedState = Annotated[
    bool, typer.Option("--allow-dropped-state", help="Start even if state in it fits no node and is lost.")
]
MaxParallelism = Annotated[
    int | None,
    typer.Option(
        "--max-parallelism",
        min=1,
        metavar="N",
        help="Number of key groups instead of the pipeline's; may differ from the savepoint's: all state is read.",
        show_default=False,
    ),
]
AllowDrained = Annotated[
    bool,
    typer.Option("--allow-drained", help="Start even if it was taken after time had gone to its end (stop --drain)."),
]
AllowLostOutput = Annotated[
    bool, typer.Option("--allow-lost-output", help="Start even if it is not known whether its last output is visible.")
]
AcceptNewTopic = Annotated[
    list[str] | None,
    typer.Option(
        "--accept-new-topic",
        metavar="NAME",
        help="A topic that was made anew, or is one of another cluster: begin it at its start; repeatable.",
    ),
]
PyFiles = Annotated[
    list[str] | None,
    typer.Option("--py-files", metavar="PATH,..", help="Modules (.py, .zip, .whl, folders) that travel with the job."),
]
Archives = Annotated[
    list[str] | None,
    typer.Option("--archives", metavar="PATH,..", help="Archives (.zip, .tar.gz) that slots unpack and import from."),
]

OldArchive = Annotated[list[str] | None, typer.Option("--archive", hidden=True)]
OldFinal = Annotated[bool, typer.Option("--final", hidden=True)]
OldProperties = Annotated[list[str] | None, typer.Option("--properties", hidden=True)]
"""Earlier spellings of --archives, --drain and --property. They are accepted, and shown nowhere."""


def both_spellings(given: Sequence[str] | None, earlier: Sequence[str] | None) -> list[str]:
    """Returns the values of an option and of its earlier spelling."""
    return [*(given or ()), *(earlier or ())]


def overrides_of(set_: Sequence[str] | None, max_parallelism: int | None) -> list[str]:
    """Returns the texts of --set, with that of --max-parallelism."""
    return [*(set_ or ()), *([] if max_parallelism is None else [f"max_parallelism={max_parallelism}"])]


def renames_of(given: Sequence[str] | None) -> dict[str, str]:
    """Returns `old=new` texts as a mapping. Raises UserError."""
    from headrace.core.errors import UserError

    renames: dict[str, str] = {}
    for text in given or ():
        old, equals, new = (part.strip() for part in text.partition("="))
        if not (old and equals and new):
            raise UserError(f"--rename {text!r} renames nothing", remedy="write --rename OLD=NEW")
        if renames.setdefault(old, new) != new:
            raise UserError(f"--rename gives {old!r} two names: {renames[old]!r} and {new!r}")
    return renames


def duration_ms(option: str, text: str) -> int:
    """The duration that an option has, in ms. Raises UserError, which names the option."""
    from headrace.core.config import parse_duration_ms
    from headrace.core.errors import UserError

    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise UserError(f"{option}: {error}") from error


def size_bytes(option: str, text: str) -> int:
    """The size that an option has, in bytes. Raises UserError, which names the option."""
    from headrace.core.config import parse_size_bytes
    from headrace.core.errors import UserError

    try:
        return parse_size_bytes(text)
    except ValueError as error:
        raise UserError(f"{option}: {error}") from error


def given_option(context: typer.Context, names: Iterable[str]) -> str | None:
    """The first of these parameters that the command line gives, as `--option`; variables do not count."""
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            return "--" + name.replace("_", "-")
    return None


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """Prints aligned columns: the first `left` of them left-aligned, the numbers after them right-aligned."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    for row in [head, *rows]:
        cells = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        typer.echo("  ".join(cells).rstrip())


def print_json(document: object) -> None:
    """Prints one document to stdout."""
    typer.echo(json.dumps(document, ensure_ascii=False))
