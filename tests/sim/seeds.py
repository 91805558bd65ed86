"""Runs the seeds of a simulation on all processors, and names those that fail, with the command that shows them."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from sim.world import World

SHOWN = 60
SHOWN_EVERY = 250


class Ended(Protocol):
    """How a seed's story ended."""

    @property
    def end(self) -> str:
        """In a word or two."""
        ...


class Play(Protocol):
    """Plays one seed."""

    def __call__(self, seed: int, *, verbose: bool = False) -> Ended:
        """Raises where something is wrong."""
        ...


@contextmanager
def told_at_failure(world: World, module: str, seed: int) -> Iterator[None]:
    """Whoever fails inside says what came before, and how to see it again."""
    try:
        yield
    except AssertionError as error:
        error.add_note("\n".join(list(world.told)[-SHOWN:]))
        error.add_note(rerun(module, seed))
        raise


def rerun(module: str, seed: int) -> str:
    """How to see it again."""
    return f"again: PYTHONPATH=tests python -m {module} --seed {seed} --verbose"


def command(module: str, description: str, play: Play) -> int:
    """The command line of a simulation."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seeds", type=int, default=10_000, help="how many")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first that fails")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--verbose", action="store_true", help="tell its story")
    wanted = parser.parse_args()
    if wanted.seed is not None:
        _say(f"{play(wanted.seed, verbose=wanted.verbose)}")
        return 0
    seeds = range(wanted.first, wanted.first + wanted.seeds)
    failed = _run(play, seeds, jobs=wanted.jobs, keep_going=wanted.keep_going)
    for seed in failed:
        _say(rerun(module, seed))
    return 1 if failed else 0


def _run(play: Play, seeds: range, *, jobs: int, keep_going: bool) -> list[int]:
    begun = time.monotonic()
    failed: list[int] = []
    ends: Counter[str] = Counter()
    with multiprocessing.Pool(jobs) as pool:
        attempts: Callable[[int], tuple[int, str, str]] = partial(_try, play)
        for count, (seed, end, trouble) in enumerate(pool.imap_unordered(attempts, seeds, chunksize=8), start=1):
            if trouble:
                failed.append(seed)
                _say(f"seed {seed} fails: {trouble}")
                if not keep_going:
                    break
            ends[end] += 1
            if count % SHOWN_EVERY == 0 or count == len(seeds):
                rate = count / (time.monotonic() - begun)
                _say(f"{count} of {len(seeds)} seeds, {rate:.0f} a second, {len(failed)} failed, {dict(ends)}")
    return failed


def _try(play: Play, seed: int) -> tuple[int, str, str]:
    """The seed, how its story ended, and what is wrong with that (empty: nothing)."""
    try:
        return seed, play(seed).end, ""
    except Exception as error:
        return seed, "wrong", f"{type(error).__name__}: {error}"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
