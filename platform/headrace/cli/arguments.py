"""Arguments that several commands share, and how a command prints a JSON document."""

from __future__ import annotations

import json
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


def print_json(document: object) -> None:
    """One document on stdout."""
    typer.echo(json.dumps(document, ensure_ascii=False))


def plural(count: int, word: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
