"""Histograms of how late rows are, as figures have them: (bucket, rows). Plain numbers, without an engine.

Bucket b counts rows that were late by more than `GROWTH ** (b - 1)` and at most `GROWTH ** b` ms, so that a quantile is
exact to a tenth of its value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

GROWTH = 1.1
"""Ratio of the bounds of neighbouring buckets."""
BUCKETS_MAX = 320
"""Number of buckets; the last one begins above 500 years."""


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
