"""Cases that take turns: a commit runs one of them, the next commit another one; the full tier runs all of them.

`HEADRACE_TURN=7 make test` runs the cases of another commit, the one whose number would be 7.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from functools import cache
from typing import TypeVar

from support.repository import ROOT

Case = TypeVar("Case")


def of_this_commit(cases: Sequence[Case]) -> Case:
    """The case whose turn it is: a commit always runs the same one, so its result does not change from run to run."""
    return cases[_commit() % len(cases)]


def has_turn(number: int, *, turns: int) -> bool:
    """Whether the case of this number, of cases of which each commit runs a part, is run by this commit."""
    return number % turns == of_this_commit(range(turns))


@cache
def _commit() -> int:
    chosen = os.environ.get("HEADRACE_TURN")
    if chosen is not None:
        return int(chosen)
    command = ["git", "-c", f"safe.directory={ROOT}", "rev-parse", "HEAD"]
    return int(subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout.strip(), 16)
