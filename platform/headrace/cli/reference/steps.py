"""`headrace steps`: lists the verbs of steps and the kinds of windows, or shows the fields and an example of one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.cli.arguments import Json, print_json
from headrace.cli.errors import reporting_errors
from headrace.cli.reference.fields import field_dict, print_fields


@reporting_errors()
def steps(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", show_default=False)] = None, as_json: Json = False
) -> None:
    """List the verbs of steps and the kinds of windows, or show the fields and an example of one."""
    from headrace.spec.reference.step_entries import entry_named, step_entries

    if name is None:
        listed = step_entries()
        if as_json:
            print_json({"steps": [{"name": e.name, "kind": e.kind, "summary": e.summary} for e in listed]})
            return
        width = max(len(entry.name) for entry in listed)
        for entry in listed:
            typer.echo(f"{entry.name.ljust(width)}  {entry.kind.ljust(6)}  {entry.summary}")
        return
    chosen = entry_named(name)
    if as_json:
        shown: dict[str, Any] = {"name": chosen.name, "kind": chosen.kind, "summary": chosen.summary}
        print_json({**shown, "fields": [field_dict(field) for field in chosen.fields], "example": chosen.example})
        return
    typer.echo(f"{chosen.name}: {chosen.summary}\n")
    print_fields(
        chosen.fields,
        chosen.example,
        heading="example, under `steps:`" if chosen.kind == "verb" else "example, in a step",
    )
