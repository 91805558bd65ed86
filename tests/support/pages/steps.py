"""The commands in a page's `console` blocks, with the lines that the page shows below each.

A page's line may have `..` for what differs between runs. Seconds and per cents may be others, lines may be left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MARK = "@@ command"
"""A line between the outputs of two commands of one shell."""
DIFFERS = (
    (re.escape(re.escape("..")), ".*"),
    (r"\d+\\\.\d(?=\\ s\b)", r"\\d+\\.\\d"),
    (r"\d+%", r"\\d+%"),
    (r"(\\ )+", r"\\s+"),
)
"""What a shown line, escaped, has instead of what is another in every run."""


@dataclass(frozen=True, slots=True)
class Step:
    """A command and the lines that the page shows below it."""

    command: str
    shown: list[str]


def steps_of(page: str) -> Iterator[Step]:
    for block in BLOCK.findall(page):
        for part in f"\n{block}".split("\n$ ")[1:]:
            command, *shown = part.splitlines()
            yield Step(command, shown)


def missing(shown: list[str], printed: list[str]) -> list[str]:
    """Shown lines that were not printed, in the order of the page."""
    lines = iter(printed)
    return [line for line in shown if not any(_pattern(line).fullmatch(each) for each in lines)]


def _pattern(line: str) -> re.Pattern[str]:
    pattern = re.escape(line)
    for what, other in DIFFERS:
        pattern = re.sub(what, other, pattern)
    return re.compile(rf"{pattern}\s*")


def script_of(steps: list[Step], before: Callable[[str], str] = lambda _: "") -> str:
    """A script of bash that ends with the first command that fails. before: what runs first, for a command."""
    parts = [f"{before(step.command)}echo; echo '{MARK}'\n{step.command}" for step in steps]
    return "\n".join(["set -eo pipefail", *parts])


def outputs(printed: str) -> list[list[str]]:
    """The lines that each command of such a script has printed."""
    return [part.splitlines() for part in printed.split(f"\n{MARK}\n")[1:]]
