"""The group-by kernel against polars and exact numbers, on random frames in random pieces.

`PYTHONPATH=tests python -m fuzz.group_by --seconds 60 --seed 1`
"""

from __future__ import annotations

import sys
from collections import Counter
from random import Random

import numpy as np
import polars as pl

from fuzz.command import Fuzzer, FuzzError, command
from headrace.kernels.group.group_by import Grouping, GroupTable, add_placed
from support.kernels.group_frames import expected_groups, found_groups, in_pieces, random_frame


def batch(random: Random) -> Counter[str]:
    """One frame in pieces, into one table or into four by time."""
    frame, grouping = random_frame(random, random.choice([1, 2, 17, 256, 700, 4000]))
    pieces = in_pieces(random, frame)
    if random.random() < 0.3:
        panes = [(GroupTable(grouping), begin, begin + 15) for begin in (0, 15, 30, 45)]
        for piece in pieces:
            add_placed(piece, "__ts", panes)
        for table, begin, end in panes:
            inside = frame.filter(pl.col("__ts").is_between(begin, end, closed="left"))
            _compare(table.take(), grouping, inside)
    else:
        table = GroupTable(grouping)
        for _ in range(random.choice([1, 1, 2])):
            numbers = [found for piece in pieces if (found := table.add_numbered(piece)) is not None]
            distinct = np.unique(np.concatenate(numbers)).tolist()
            chosen = np.array(random.sample(distinct, len(distinct)), dtype=np.uint32)
            _compare([table.groups_of(chosen)], grouping, frame)
            _compare(table.take(), grouping, frame)
    return Counter(rows=frame.height, aggregates=len(grouping.aggregates))


def _compare(frames: list[pl.DataFrame], grouping: Grouping, rows: pl.DataFrame) -> None:
    if found_groups(frames, grouping) != expected_groups(rows, grouping):
        raise FuzzError(f"{grouping} of {rows}")


def verdict(counts: Counter[str]) -> None:
    """Raises FuzzError if nothing was compared."""
    if not counts["rows"]:
        raise FuzzError("no rows")


FUZZER = Fuzzer("fuzz.group_by", batch, verdict)

if __name__ == "__main__":
    sys.exit(command(FUZZER, __doc__ or ""))
