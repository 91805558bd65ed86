"""`headrace docs`: lists the documentation's pages, or prints one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.arguments import Json, print_json
from headrace.cli.errors import reporting_errors
from headrace.core.errors import UserError

PACKAGED = "pages"
"""The folder beside the package's modules where a wheel has docs/ (pyproject.toml, `force-include`)."""
NEAREST_MAX = 5
"""Most names that the error about an unknown page proposes."""


@reporting_errors()
def docs(
    page: Annotated[str | None, typer.Argument(metavar="[PAGE]", show_default=False)] = None, as_json: Json = False
) -> None:
    """List the pages of the documentation, or print one as Markdown. The end of its name or its beginning is enough."""
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


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """One page: a file of an installed wheel beside the package, or of a checkout in docs/. name: its path below the
    folder, without `.md`."""

    name: str
    path: Path

    @property
    def title(self) -> str:
        """Its first heading."""
        with self.path.open(encoding="utf-8") as lines:
            return next((line[2:].strip() for line in lines if line.startswith("# ")), self.name)

    @property
    def text(self) -> str:
        """The page as Markdown."""
        return self.path.read_text(encoding="utf-8")


def pages(folder: Path | None = None) -> tuple[DocumentPage, ...]:
    """Returns all pages, by name; decisions come last. Raises UserError if this installation has none."""
    root = folder or _folder()
    found = [DocumentPage(path.relative_to(root).with_suffix("").as_posix(), path) for path in root.rglob("*.md")]
    return tuple(sorted(found, key=lambda page: (page.name.startswith("decisions/"), page.name)))


def page_named(name: str, listed: tuple[DocumentPage, ...]) -> DocumentPage:
    """Returns the page of that name, of that last part of a name, or the only one whose last part begins so.

    Raises UserError, which proposes the nearest names, if there is none.
    """
    wanted = name.removesuffix(".md").removeprefix("docs/").casefold()
    by_name = {page.name.casefold(): page for page in listed}
    last = {page.name.casefold().rpartition("/")[2]: page for page in listed}
    begun = [page for key, page in last.items() if wanted and key.startswith(wanted)]
    match by_name.get(wanted) or last.get(wanted), begun:
        case DocumentPage() as page, _:
            return page
        case None, [only]:
            return only
        case _:
            raise UserError(
                f"there is no page {name!r}", remedy=_remedy(wanted, [*last], [page.name for page in begun])
            )


def _remedy(name: str, names: list[str], begun: list[str]) -> str:
    import difflib

    near = begun[:NEAREST_MAX] or difflib.get_close_matches(name, names, n=NEAREST_MAX, cutoff=0.6)
    return f"nearest: {', '.join(near)}" if near else "`headrace docs` lists all pages"


def _folder() -> Path:
    package = Path(__file__).parents[2]
    for folder in (package / PACKAGED, package.parents[1] / "docs"):
        if folder.is_dir():
            return folder
    raise UserError("this installation has no documentation", remedy="install a wheel of headrace")
