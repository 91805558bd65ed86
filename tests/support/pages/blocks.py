"""The fenced blocks of the pages, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from support.repository import ROOT, pages

COMING_FROM = Path("docs/coming-from")
SHOWN = [page for page in pages() if page.parts[0] == "docs" or page.name == "README.md"]
"""Pages for users, and their like beside examples and deployments."""
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. line: of the page, where it begins; kind: the word behind its fence."""

    page: Path
    line: int
    kind: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_pipeline(self) -> bool:
        if self.kind == "python":
            return self.page.is_relative_to(COMING_FROM) and self.text.startswith("import headrace")
        return self.kind == "yaml" and self.text.startswith("name:")

    @property
    def is_commands(self) -> bool:
        return self.kind in {"console", "sh"}

    def commands(self) -> list[str]:
        """The lines that are typed, without the prompt: `$`, or a host's name with `#`. A backslash joins two."""
        lines = self.text.replace("\\\n", " ").splitlines()
        if self.kind == "sh":
            return lines
        return [match[1] for line in lines if (match := re.match(r"(?:\$|\w*#) (.*)", line))]


def blocks(shown: Iterable[Path]) -> Iterator[Block]:
    for page in shown:
        text = (ROOT / page).read_text()
        for found in _FENCE.finditer(text):
            indent, kind, content = found.groups()
            line = text.count("\n", 0, found.start()) + 1
            yield Block(page, line, kind, re.sub(f"^{indent}", "", content, flags=re.MULTILINE))
