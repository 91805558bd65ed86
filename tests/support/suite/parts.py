"""Part of a run: `--part 2/8` runs the second of eight, so that eight machines share the run, or eight hours.

Parts are of about the same duration, by `tests/durations.json`. What a part holds depends on the commit alone: the
eight parts of one commit are the whole run, wherever and whenever each of them runs.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection
from functools import partial

import pytest

from support.suite.durations import COMMIT, FULL, Seconds, cost_s, durations

PARTS_MAX = 100
_PART = re.compile(r"(\d{1,3})/(\d{1,3})")


def part_of(files: Collection[str], seconds: Seconds, *, part: int, parts: int) -> set[str]:
    """The files of one part, 1 to `parts`. Each file is in one of them."""
    held: list[set[str]] = [set() for _ in range(parts)]
    sums = [0.0] * parts
    cost = partial(cost_s, seconds)
    # the longest first, each into the part that has least: by name among equals, in every process the same
    for file in sorted(files, key=lambda file: (-cost(file), file)):
        least = sums.index(min(sums))
        held[least].add(file)
        sums[least] += cost(file)
    return held[part - 1]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", type=_part, metavar="I/N", help="only part I of N of about the same duration")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen: tuple[int, int] | None = config.getoption("--part")
    if chosen is None:
        return
    part, parts = chosen
    seconds = durations(FULL if config.getoption("--full") else COMMIT)
    files = part_of({_file(item) for item in items}, seconds, part=part, parts=parts)
    config.hook.pytest_deselected(items=[item for item in items if _file(item) not in files])
    items[:] = [item for item in items if _file(item) in files]


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _part(text: str) -> tuple[int, int]:
    match = _PART.fullmatch(text)
    part, parts = map(int, match.groups()) if match else (0, 0)
    if not 1 <= part <= parts <= PARTS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no part; 2/8 is the second of eight, and {PARTS_MAX} are most")
    return part, parts
