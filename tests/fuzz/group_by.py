"""The group-by kernel against polars and exact numbers, on random frames in random pieces.

`PYTHONPATH=tests python -m fuzz.group_by --seconds 60 --seed 1`
"""

from __future__ import annotations

import sys
from collections import Counter
from random import Random

import polars as pl

from fuzz.command import Fuzzer, FuzzError, command
from headrace.kernels.group_by import GroupTable, add_placed
from support.kernels.group_frames import expected_groups, found_groups, in_pieces, random_frame


def batch(random: Random) -> Counter[str]:
    """One frame in pieces, into one table or into four by time."""
    frame, grouping = random_frame(random, random.choice([1, 2, 17, 256, 700, 4000]))
    is_placed = random.random() < 0.3
    panes = [(GroupTable(grouping), begin, begin + 15) for begin in (0, 15, 30, 45)]
    for _ in range(random.choice([1, 1, 2])):
        for piece in in_pieces(random, frame):
            add_placed(piece, "__ts", panes) if is_placed else panes[0][0].add(piece)
        for table, begin, end in panes:
            inside = frame.filter(pl.col("__ts").is_between(begin, end, closed="left")) if is_placed else frame
            if not is_placed and begin:
                continue
            if found_groups(table.take(), grouping) != expected_groups(inside, grouping):
                raise FuzzError(f"{grouping} of {inside.to_dict(as_series=False)}")
    return Counter(rows=frame.height, aggregates=len(grouping.aggregates))


def verdict(counts: Counter[str]) -> None:
    """Raises FuzzError if nothing was compared."""
    if not counts["rows"]:
        raise FuzzError("no rows")


FUZZER = Fuzzer("fuzz.group_by", batch, verdict)

if __name__ == "__main__":
    sys.exit(command(FUZZER, __doc__ or ""))
