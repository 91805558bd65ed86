"""A hook of MkDocs: links that leave docs/ lead to pages of the site that show the file.

Pages in docs/ link to other files of the repository by relative paths, which a plain view of the repository follows.
The site has a page below `repository/` for each file that is linked, so that the site is complete in itself: Markdown
as it is, any other text as a block of code. A link to a folder without a README is plain text.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

PREFIX = "repository/"
_FENCE = re.compile(r"^[ ]*(```+|~~~+).*?^[ ]*\1[ ]*$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_CELL_CODE = re.compile(r"`[^`]*`")
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".toml": "toml", ".sh": "bash"}
_DOCS = "docs/"


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds a page for each file outside of docs/ that a page links to, also by way of other such pages."""
    root = Path(config.docs_dir).parent
    waiting = [f"{_DOCS}{file.src_uri}" for file in files.documentation_pages()]
    while waiting:
        place = waiting.pop()
        for target, _ in _local_links((root / place).read_text(encoding="utf-8"), place):
            path = _shown_file(root, target)
            if path is None or path.startswith(_DOCS) or files.get_file_from_path(_uri(path)):
                continue
            if not (root / path).is_file():
                continue  # stays a dead link, which a strict build refuses
            files.append(_generated(config, root, path))
            if path.endswith(".md"):
                waiting.append(path)
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrites links that leave docs/, and spots where Markdown's Python form differs from that of code hosts."""
    root = Path(config.docs_dir).parent
    uri = page.file.src_uri
    if _is_code(uri):
        return markdown
    place = uri.removeprefix(PREFIX) if uri.startswith(PREFIX) else f"{_DOCS}{uri}"

    def link(match: re.Match[str]) -> str:
        text, target = match.groups()
        if _is_foreign(target):
            return match[0]
        path, hash_, anchor = target.partition("#")
        shown = _shown_file(root, _resolved(place, path))
        if shown is None:
            return text
        if files.get_file_from_path(_uri(shown)) is None:
            return match[0]
        return f"[{text}]({posixpath.relpath(_uri(shown), posixpath.dirname(uri) or '.')}{hash_}{anchor})"

    return _outside_code(markdown, lambda text: _list_indents(_table_cells(_LINK.sub(link, text))))


def _is_code(uri: str) -> bool:
    return uri.startswith(PREFIX) and uri.removesuffix(".md").rpartition("/")[2].count(".") > 0


def _uri(path: str) -> str:
    """The page that shows a file of the repository."""
    if path.startswith(_DOCS):
        return path.removeprefix(_DOCS)
    return PREFIX + (path if path.endswith(".md") else f"{path}.md")


def _generated(config: MkDocsConfig, root: Path, path: str) -> File:
    if path.endswith(".md"):
        return File.generated(config, _uri(path), abs_src_path=str(root / path), inclusion=InclusionLevel.NOT_IN_NAV)
    text = (root / path).read_text(encoding="utf-8")
    content = f"# {posixpath.basename(path)}\n\n`{path}`\n\n````{_LANGUAGES.get(Path(path).suffix, '')}\n{text}\n````\n"
    return File.generated(config, _uri(path), content=content, inclusion=InclusionLevel.NOT_IN_NAV)


def _shown_file(root: Path, path: str) -> str | None:
    """The file that a path stands for: of a folder its README. None if there is none; a dead link stays one."""
    if (root / path).is_dir():
        return f"{path}/README.md" if (root / path / "README.md").is_file() else None
    return path


def _local_links(markdown: str, place: str) -> Iterator[tuple[str, str]]:
    """Path in the repository and anchor of each link to another file."""
    for _, target in _LINK.findall(_FENCE.sub("", markdown)):
        if not _is_foreign(target):
            path, _, anchor = target.partition("#")
            yield _resolved(place, path), anchor


def _is_foreign(target: str) -> bool:
    return target.startswith(("#", "mailto:")) or "://" in target


def _resolved(place: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(place), path))


def _outside_code(markdown: str, change: Callable[[str], str]) -> str:
    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [change(markdown[end : fence.start()]), _indented(fence[0])]
        end = fence.end()
    return "".join([*parts, change(markdown[end:])])


def _list_indents(text: str) -> str:
    """Paragraphs of a numbered list are indented by 3 spaces; Markdown's Python form takes no fewer than 4."""
    return re.sub(r"^   (?=\S)", "    ", text, flags=re.MULTILINE)


def _indented(fence: str) -> str:
    return re.sub(r"^(?=.)", " ", fence, flags=re.MULTILINE) if re.match(r" {3}\S", fence) else fence


def _table_cells(text: str) -> str:
    """In code of a table GitHub needs `\\|` for a bar; Markdown's Python form shows the backslash."""
    lines = text.split("\n")
    unescaped = (_CELL_CODE.sub(lambda code: code[0].replace("\\|", "|"), line) for line in lines)
    return "\n".join(new if old.startswith("|") else old for old, new in zip(lines, unescaped, strict=True))
