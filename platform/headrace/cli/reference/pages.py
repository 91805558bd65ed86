"""The documentation's pages as files: of an installed wheel beside the package, of a checkout in docs/."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors import UserError

PACKAGED = "pages"
"""The folder beside the package's modules where a wheel has docs/ (pyproject.toml, `force-include`)."""
NEAREST_MAX = 5
"""Most names that the error about an unknown page proposes."""


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """One page. name: its path below docs/, without `.md`."""

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
