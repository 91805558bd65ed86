"""`headrace docs`: lists the documentation's pages, or prints one."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.arguments import Json, print_json
from headrace.cli.errors import reporting_errors


@reporting_errors()
def docs(
    page: Annotated[str | None, typer.Argument(metavar="[PAGE]", show_default=False)] = None, as_json: Json = False
) -> None:
    """List the pages of the documentation, or print one as Markdown. The end of its name or its beginning is enough."""
    from headrace.cli.reference.pages import page_named, pages

    listed = pages()
    if page is not None:
        chosen = page_named(page, listed)
        if as_json:
            print_json({"page": chosen.name, "title": chosen.title, "text": chosen.text})
        else:
            typer.echo(chosen.text, nl=False)
        return
    if as_json:
        print_json({"pages": [{"page": each.name, "title": each.title} for each in listed]})
        return
    width = max(len(each.name) for each in listed)
    for each in listed:
        typer.echo(f"{each.name.ljust(width)}  {each.title}")
