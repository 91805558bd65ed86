"""Commands of a page: those in its `console` blocks, by section, with the hosts that each is for.

    each#      on every host
    standby#   on the hosts whose coordinator does not lead as the block begins
    leader#    on the host whose coordinator leads as the block begins
    h1#        on that host
    #          on the host that the page is about
    $          where clients are

A block is given whole on one host after the other; the hosts of its commands are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINE = re.compile(r"(\w*#|\$) (.+)", re.DOTALL)
CLIENT = "$"


@dataclass(frozen=True, slots=True)
class Command:
    """where: a host, `each`, `standby`, `leader`, CLIENT, or empty: the only one."""

    where: str
    text: str


def sections(page: Path) -> dict[str, tuple[tuple[Command, ...], ...]]:
    """Heading -> its blocks, for sections that have some."""
    _, *parts = _SECTION.split(page.read_text())
    found = {heading: _blocks(text) for heading, text in zip(parts[::2], parts[1::2], strict=True)}
    return {heading: blocks for heading, blocks in found.items() if blocks}


def settings(page: Path) -> dict[str, str]:
    """Variables that the page's `ini` blocks set."""
    blocks = re.findall(r"^```ini\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    return dict(re.findall(r"^([A-Z_]+)=(\S+)$", "\n".join(blocks), re.MULTILINE))


def _blocks(text: str) -> tuple[tuple[Command, ...], ...]:
    return tuple(tuple(_commands(block)) for block in _BLOCK.findall(text))


def _commands(block: str) -> Iterator[Command]:
    for line in block.replace("\\\n", " ").splitlines():
        found = _LINE.fullmatch(line)
        assert found is not None, f"{line!r} is no command: each#, standby#, leader#, a host's name with #, # or $"
        yield Command(found[1].rstrip("#"), re.split(r"\s+# ", found[2])[0].rstrip())
