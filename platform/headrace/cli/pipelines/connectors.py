"""`headrace connectors`: lists installed connectors, or the fields and an example of a connector or format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.arguments import Json, print_json
from headrace.cli.errors import reporting_errors
from headrace.cli.reference.fields import field_dict, print_fields

if TYPE_CHECKING:
    from headrace.connect.registry import Connector, Format


@reporting_errors()
def connectors(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", show_default=False)] = None, as_json: Json = False
) -> None:
    """List the installed connectors, or show the fields and an example of one, or of a format."""
    from headrace.connect.registry import connector, connector_names, format_named, format_names

    # a connector comes first: its name and a format's may be equal
    if name is not None and name not in connector_names() and name in format_names():
        used = format_named(name)
        if as_json:
            print_json(_format_dict(used))
        else:
            _print_format(used)
        return
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
    shown: dict[str, Any] = {"name": connector.name, "summary": connector.summary, "source": None, "sink": None}
    for side, model, example in _parts(connector):
        shown[side] = {
            "format": model.takes_format,
            "fields": _field_dicts(model),
            "example": example,
        }
    return shown


def _format_dict(used: Format) -> dict[str, Any]:
    fields = _field_dicts(used.config)
    return {"name": used.name, "summary": used.summary, "fields": fields, "example": used.example}


def _field_dicts(model: Any) -> list[dict[str, Any]]:
    from headrace.spec.config_fields import config_fields

    return [field_dict(field) for field in config_fields(model)]


def _parts(connector: Connector) -> list[tuple[str, Any, str]]:
    parts = [("source", connector.source, connector.example_source), ("sink", connector.sink, connector.example_sink)]
    return [(side, model, example) for side, model, example in parts if model is not None]


def _print_connector(connector: Connector) -> None:
    typer.echo(f"{connector.name}: {connector.summary}")
    for side, model, example in _parts(connector):
        typer.echo("")
        typer.secho(f"{side} (format: {model.takes_format})", bold=True)
        _print_fields(model, example)


def _print_format(used: Format) -> None:
    typer.echo(f"{used.name}: {used.summary}\n")
    typer.secho("format", bold=True)
    _print_fields(used.config, used.example)


def _print_fields(model: Any, example: str) -> None:
    from headrace.spec.config_fields import config_fields

    print_fields(config_fields(model), example, heading="example, under the node's name")
