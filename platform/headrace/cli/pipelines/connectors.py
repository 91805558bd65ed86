"""`headrace connectors`: lists installed connectors, or one's fields and an example."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.arguments import Json, print_json
from headrace.cli.errors import reporting_errors

if TYPE_CHECKING:
    from headrace.connect.registry import Connector


@reporting_errors()
def connectors(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", show_default=False)] = None, as_json: Json = False
) -> None:
    """List the installed connectors, or show the fields and an example of one."""
    from headrace.connect.registry import connector, connector_names

    if name is not None:
        found = connector(name)
        if as_json:
            print_json(_connector_dict(found))
        else:
            _print_connector(found)
        return
    installed = [connector(each) for each in connector_names()]
    if as_json:
        print_json({"connectors": [{"name": c.name, "summary": c.summary, **_sides(c)} for c in installed]})
        return
    width = max((len(c.name) for c in installed), default=0)
    for each in installed:
        sides = " and ".join(side for side, there in _sides(each).items() if there)
        typer.echo(f"{each.name.ljust(width)}  {sides.ljust(15)}  {each.summary}")


def _sides(connector: Connector) -> dict[str, bool]:
    return {"source": connector.source is not None, "sink": connector.sink is not None}


def _connector_dict(connector: Connector) -> dict[str, Any]:
    from headrace.spec.config_fields import config_fields

    shown: dict[str, Any] = {"name": connector.name, "summary": connector.summary, "source": None, "sink": None}
    for side, model, example in _parts(connector):
        shown[side] = {
            "format": model.takes_format,
            "fields": [
                {
                    "name": field.name,
                    "type": field.type,
                    "required": field.required,
                    "default": field.default,
                    "secret": field.secret,
                    "description": field.description,
                }
                for field in config_fields(model)
            ],
            "example": example,
        }
    return shown


def _parts(connector: Connector) -> list[tuple[str, Any, str]]:
    parts = [("source", connector.source, connector.example_source), ("sink", connector.sink, connector.example_sink)]
    return [(side, model, example) for side, model, example in parts if model is not None]


def _print_connector(connector: Connector) -> None:
    from headrace.spec.config_fields import config_fields

    typer.echo(f"{connector.name}: {connector.summary}")
    for side, model, example in _parts(connector):
        typer.echo("")
        typer.secho(f"{side} (format: {model.takes_format})", bold=True)
        fields = config_fields(model)
        rows = [(field.name, field.type, "required" if field.required else field.default_text) for field in fields]
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
        for field, row in zip(fields, rows, strict=True):
            cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            notes = "; ".join(text for text in (field.description, "secret" if field.secret else "") if text)
            typer.echo(f"  {cells}  {notes}".rstrip())
        if example:
            typer.echo("\n  example, under the node's name:\n")
            for line in example.rstrip().splitlines():
                typer.echo(f"    {line}")
