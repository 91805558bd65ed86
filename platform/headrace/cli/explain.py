"""`headrace explain`: the logical and the physical plan of a pipeline."""

from __future__ import annotations

import typer

from headrace.cli.arguments import File, Json, Set, print_json
from headrace.cli.errors import reporting_errors


@reporting_errors()
def explain(file: File, set_: Set = None, as_json: Json = False) -> None:
    """Show what a pipeline does: columns, time, append or updating, replayable or why not; tasks and edges."""
    from headrace.local.compile import compile_loaded, load_file
    from headrace.plan.explain import explain_dict, explain_lines

    compiled = compile_loaded(load_file(file, set_ or []))
    if as_json:
        print_json(explain_dict(compiled.logical, compiled.physical))
        return
    for line in explain_lines(compiled.logical, compiled.physical):
        # click leaves the style out where stdout is no terminal
        typer.echo(line if line.startswith(" ") else typer.style(line, bold=True))
