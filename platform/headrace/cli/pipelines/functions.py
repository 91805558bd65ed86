"""`headrace functions`: lists the functions of expressions, or shows the signatures and an example of some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.arguments import Json, print_json
from headrace.cli.errors import reporting_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.expr.reference import FunctionEntry


@reporting_errors()
def functions(
    name: Annotated[str | None, typer.Argument(metavar="[NAME|PREFIX]", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """List the functions of expressions. With a name or the beginning of one: its signatures and an example."""
    from headrace.expr.reference import entries, named

    chosen = entries() if name is None else named(name)
    if as_json:
        print_json({"functions": [_dict(entry) for entry in chosen]})
    elif name is None:
        _print_list(chosen)
    else:
        _print_entries(chosen)


def _dict(entry: FunctionEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "group": str(entry.group),
        "signatures": list(entry.signatures),
        "description": entry.describes,
        "example": entry.example,
        "result": entry.result,
    }


def _print_list(chosen: Sequence[FunctionEntry]) -> None:
    width = max(len(entry.name) for entry in chosen)
    group = None
    for entry in chosen:
        if entry.group is not group:
            typer.echo("" if group is None else "\n", nl=False)
            typer.secho(str(entry.group), bold=True)
            group = entry.group
        typer.echo(f"  {entry.name.ljust(width)}  {entry.describes}")


def _print_entries(chosen: Sequence[FunctionEntry]) -> None:
    from headrace.expr.functions.examples import AGGREGATE_ROWS
    from headrace.expr.reference import Group

    for number, entry in enumerate(chosen):
        if number:
            typer.echo("")
        for signature in entry.signatures:
            typer.secho(signature, bold=True)
        typer.echo(f"  {entry.describes}")
        rows = ", ".join("NULL" if x is None else str(x) for _, x in AGGREGATE_ROWS)
        over = f" for x = {rows}" if entry.group is Group.AGGREGATES else ""
        typer.echo(f"  example: {entry.example_text}{over}")
