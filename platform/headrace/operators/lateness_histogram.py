"""How late the late rows of a node are: a bounded histogram. Pure; results do not depend on it.

The lateness of a row is the watermark of its partition, less its event time; `core.late_buckets` has the buckets.
"""

from __future__ import annotations

import polars as pl

from headrace.core.batch import TS, WM
from headrace.core.late_buckets import BUCKETS_MAX, GROWTH


class LatenessHistogram:
    """The histogram of one node in one subtask. One thread adds, any thread may read."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def add(self, late: pl.DataFrame) -> None:
        """Adds late rows. Rows without their own watermark (`lateness: operator`) are not counted."""
        if WM not in late.columns or not late.height:
            return
        lateness = (late.get_column(WM) - late.get_column(TS)).clip(1).cast(pl.Float64)
        buckets = lateness.log(GROWTH).ceil().clip(0, BUCKETS_MAX - 1).cast(pl.Int64)
        for bucket, rows in buckets.value_counts().rows():
            self._counts[bucket] = self._counts.get(bucket, 0) + rows

    def buckets(self) -> tuple[tuple[int, int], ...]:
        """(bucket, rows) of every bucket with rows, ascending."""
        return tuple(sorted(dict(self._counts).items()))
