"""`headrace init`: a small project that runs at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.arguments import Json, print_json
from headrace.cli.errors import reporting_errors

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

FILES = ("pipeline.yaml", "functions.py", "data/rides.jsonl", "README.md")


@reporting_errors()
def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Folder of the project; created if it does not exist.")
    ] = Path(),
    as_json: Json = False,
) -> None:
    """Make a small project: a pipeline, a Python function, data, tests. It runs at once, without Kafka."""
    from headrace.core.errors import UserError

    present = [name for name in FILES if (folder / name).exists()]
    if present:
        raise UserError(f"{folder / present[0]} is already there", remedy="name an empty folder: headrace init DIR")
    try:
        for name in FILES:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(_template(name).read_bytes())
    except OSError as error:
        raise UserError(f"{error.filename} cannot be written: {error.strerror}") from error
    if as_json:
        print_json({"folder": str(folder), "files": list(FILES)})
        return
    typer.echo(f"made {', '.join(FILES)} in {folder}")
    enter = "" if folder == Path() else f"cd {folder} && "
    typer.echo(f"next:\n  {enter}headrace test pipeline.yaml\n  {enter}headrace run pipeline.yaml")


def _template(name: str) -> Traversable:
    from importlib.resources import files

    return files("headrace.cli.pipelines").joinpath("project", *name.split("/"))
