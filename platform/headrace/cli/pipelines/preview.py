"""`headrace preview`: some rows of a node."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.arguments import File, Json, Set, print_json
from headrace.cli.errors import reporting_errors

if TYPE_CHECKING:
    from headrace.local.inspection.preview import Preview

CELL_WIDTH = 60


@reporting_errors()
def preview(
    file: File,
    node: Annotated[str, typer.Argument(metavar="NODE", help="A source, step or sink, or x.late, x.bad.")],
    rows: Annotated[int, typer.Option("-n", "--rows", min=1, help="Most rows to print.")] = 10,
    seconds: Annotated[float, typer.Option(min=0.1, help="Longest wait for messages, in seconds.")] = 10.0,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Show the first rows of a node. Reads the real sources; opens no sink and commits no offsets."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from headrace.core.text.row_text import json_row
    from headrace.local.inspection.preview import preview as first_rows
    from headrace.local.pipeline_file import load_file

    found = first_rows(load_file(file, set_ or []), node, rows=rows, seconds=seconds)
    if as_json:
        shown = [json_row(row) for row in found.rows.to_dicts()]
        columns = found.schema.json()
        document = {"node": node, "emits": found.emits, "columns": columns, "rows": shown}
        print_json({**document, "timed_out": found.timed_out})
        return
    _print_table(found)
    if found.timed_out:
        count = found.rows.height
        typer.echo(f"{'only ' + str(count) if count else 'no'} rows within {seconds:g} s", err=True)
    elif not found.rows.height:
        typer.echo("no rows: the sources ended", err=True)


def _print_table(found: Preview) -> None:
    from headrace.core.text.row_text import value_text

    lines = [[field.name for field in found.schema], [field.type_text for field in found.schema]]
    lines += [[_cut(value_text(value)) for value in row] for row in found.rows.rows()]
    widths = [max(len(line[i]) for line in lines) for i in range(len(found.schema))]
    for number, line in enumerate(lines):
        text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        typer.echo(
            typer.style(text, bold=True) if number == 0 else typer.style(text, dim=True) if number == 1 else text
        )


def _cut(text: str) -> str:
    return text if len(text) <= CELL_WIDTH else text[: CELL_WIDTH - 2] + ".."
