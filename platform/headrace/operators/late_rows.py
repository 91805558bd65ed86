"""How late the late rows of a node are: a bounded histogram. Pure; results do not depend on it.

Bucket b counts rows that were late by more than `GROWTH ** (b - 1)` and at most `GROWTH ** b` ms, so that a quantile is
exact to a tenth of its value. The lateness of a row is the watermark of its partition, less its event time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import polars as pl

from headrace.core.batch import TS, WM

GROWTH = 1.1
"""Ratio of the bounds of neighbouring buckets."""
BUCKETS_MAX = 320
"""Number of buckets; the last one begins above 500 years."""


class LateRows:
    """The histogram of one node in one subtask. One thread adds, any thread may read."""

    def __init__(self) -> None:
        self._counts = np.zeros(BUCKETS_MAX, dtype=np.int64)

    def add(self, late: pl.DataFrame) -> None:
        """Adds late rows. Rows without their own watermark (`lateness: operator`) are not counted."""
        if WM not in late.columns or not late.height:
            return
        lateness = late.get_column(WM).to_numpy() - late.get_column(TS).to_numpy()
        places = np.ceil(np.log(np.maximum(lateness, 1)) / math.log(GROWTH))
        self._counts += np.bincount(np.clip(places, 0, BUCKETS_MAX - 1).astype(np.int64), minlength=BUCKETS_MAX)

    def buckets(self) -> tuple[tuple[int, int], ...]:
        """(bucket, rows) of every bucket with rows, ascending."""
        filled = np.flatnonzero(self._counts)
        return tuple(zip(filled.tolist(), self._counts[filled].tolist(), strict=True))


def merged(histograms: Iterable[Iterable[tuple[int, int]]]) -> dict[int, int]:
    """The sum of histograms: bucket -> rows."""
    total: dict[int, int] = {}
    for histogram in histograms:
        for bucket, rows in histogram:
            total[bucket] = total.get(bucket, 0) + rows
    return total


def quantile_ms(buckets: Mapping[int, int], share: float) -> int | None:
    """The lateness (ms) that `share` of the rows does not exceed, up to the bound of its bucket; None: no rows."""
    rows = sum(buckets.values())
    seen = 0
    for bucket in sorted(buckets):
        seen += buckets[bucket]
        if seen >= share * rows:
            return math.ceil(GROWTH**bucket)
    return None
