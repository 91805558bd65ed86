"""Which tests a run has: those of a commit, or all.

    full        a test of the full tier only
    turns(n)    of the tests of a file that have this mark, a commit runs every nth, the next commit others
    turns(n, of="files")    a commit runs all marked tests of the file, or none: the file has its turn or not

`--full` runs all of them. A commit always runs the same ones, so its result does not change from run to run.
"""

from __future__ import annotations

from collections import Counter
from zlib import crc32

import pytest

from support.rotation import has_turn

FULL_MARK = "full"
TURNS_MARK = "turns"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="the full tier: also tests that are marked `full` or `turns`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects what belongs to the full tier, unless it was asked for."""
    if config.getoption("--full"):
        return
    marked: Counter[str] = Counter()
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        belongs = item.get_closest_marker(FULL_MARK) is None and _has_turn(item, marked)
        (chosen if belongs else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = chosen


def _has_turn(item: pytest.Item, marked: Counter[str]) -> bool:
    """marked: how many tests of each file had the mark before this one."""
    mark = item.get_closest_marker(TURNS_MARK)
    if mark is None:
        return True
    (turns,) = mark.args
    file = item.nodeid.partition("::")[0]
    if mark.kwargs.get("of") == "files":
        return has_turn(crc32(file.encode()), turns=turns)
    marked[file] += 1
    return has_turn(crc32(file.encode()) + marked[file], turns=turns)
