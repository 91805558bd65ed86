"""The command line of a fuzzer: batches that follow from a seed and their number, until the time is up."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from unittest.mock import patch

from headrace.kernels import library
from headrace.kernels.compiling import LIBRARY


class FuzzError(AssertionError):
    """A kernel is wrong; the text has the input."""


@dataclass(frozen=True, slots=True)
class Fuzzer:
    """What is run again and again.

    module     that is run as a command
    batch      checks one batch, raises FuzzError; returns what it counted
    verdict    raises FuzzError for counts of a whole run
    """

    module: str
    batch: Callable[[Random], Counter[str]]
    verdict: Callable[[Counter[str]], None]


def fuzz(
    fuzzer: Fuzzer, seed: int, batches: range, *, seconds: float | None = None, traced: bool = False
) -> Counter[str]:
    """Runs batches of a seed, up to `seconds`. Raises FuzzError with the command that repeats the batch.

    traced: writes the number of each batch, so that a crash has one
    """
    counts: Counter[str] = Counter()
    end_s = None if seconds is None else time.monotonic() + seconds
    for number in batches:
        if end_s is not None and time.monotonic() > end_s:
            break
        if traced:
            say(f"batch {number}")
        try:
            counts += fuzzer.batch(Random(f"{seed} {number}"))
        except Exception as error:
            error.add_note(again(fuzzer.module, seed, number))
            raise
        counts["batches"] += 1
    fuzzer.verdict(counts)
    return counts


def again(module: str, seed: int, number: int) -> str:
    """The command that repeats a batch."""
    return f"again: PYTHONPATH=tests python -m {module} --seed {seed} --batch {number}"


def command(fuzzer: Fuzzer, description: str) -> int:
    """The command line of one fuzzer."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first batch")
    parser.add_argument("--batches", type=int, default=sys.maxsize, help="at most so many")
    parser.add_argument("--batch", type=int, help="only this one")
    parser.add_argument("--library", type=Path, help="the compiled kernels, if not those of the package")
    parser.add_argument("--trace", action="store_true", help="write the number of each batch before it begins")
    given = parser.parse_args()
    first, count = (given.first, given.batches) if given.batch is None else (given.batch, 1)
    # before anything is loaded
    with patch.object(library, "LIBRARY", given.library or LIBRARY):
        if library.library() is None:
            say("no kernels: run make kernels")
            return 1
        begun_s = time.monotonic()
        counts = fuzz(fuzzer, given.seed, range(first, first + count), seconds=given.seconds, traced=given.trace)
    shown = ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))
    say(f"{fuzzer.module}: seed {given.seed}, {time.monotonic() - begun_s:.0f} s: {shown}")
    return 0


def say(line: str) -> None:
    """Writes a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
