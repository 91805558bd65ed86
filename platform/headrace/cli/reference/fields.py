"""Fields of a model, as commands print them: a table with an example, or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from headrace.spec.config_fields import ConfigField


def field_dict(field: ConfigField) -> dict[str, Any]:
    """Returns a field, and the fields of its value, for JSON."""
    return {
        "name": field.name,
        "type": field.type,
        "required": field.required,
        "default": field.default,
        "secret": field.secret,
        "description": field.description,
        "words": list(field.words),
        "limits": field.limits,
        "fields": [field_dict(inner) for inner in field.fields],
        "keyed": field.keyed,
    }


def print_fields(given: Sequence[ConfigField], example: str, *, heading: str) -> None:
    """Prints a line for each field, and for each field of its value; then the example under its heading."""
    from headrace.spec.reference.field_tables import notes

    fields = [found for field in given for found in ((field.name, field), *field.inner)]
    rows = [(path, field.type, "required" if field.required else field.default_text) for path, field in fields]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
    for (_, field), row in zip(fields, rows, strict=True):
        cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo(f"  {cells}  {notes(field)}".rstrip())
    if example:
        typer.echo(f"\n  {heading}:\n")
        for line in example.rstrip().splitlines():
            typer.echo(f"    {line}")
