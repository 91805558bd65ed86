"""Counts and sums by key and tumbling window in a bare loop: partial aggregates of batches, by window."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import polars as pl

PARTIALS_MAX = 24
"""Number of partial aggregates per window that are kept before they are merged."""


class WindowState:
    """Open windows of `size_ms` over columns k, ts (epoch ms) and v."""

    def __init__(self, size_ms: int) -> None:
        self._size_ms = size_ms
        self._partials: dict[int, list[pl.DataFrame]] = {}

    def add(self, rows: pl.DataFrame) -> None:
        """Adds a batch."""
        start = (pl.col("ts") // self._size_ms * self._size_ms).alias("w")
        partial = rows.group_by(start, "k").agg(pl.len().cast(pl.Int64).alias("n"), pl.col("v").sum().alias("s"))
        for window in partial["w"].unique().to_list():
            partials = self._partials.setdefault(window, [])
            partials.append(partial.filter(pl.col("w") == window))
            if len(partials) >= PARTIALS_MAX:
                self._partials[window] = [_merged(partials)]

    def close(self, watermark_ms: int) -> Iterator[pl.DataFrame]:
        """Yields the results (k, w, n, s) of each window that ends at or before the watermark, and drops it."""
        for window in sorted(w for w in self._partials if w + self._size_ms <= watermark_ms + 1):
            yield _merged(self._partials.pop(window)).select("k", "w", "n", "s")

    def snapshot(self, file: Path) -> None:
        """Writes all open windows to disk."""
        partials = [partial for window in self._partials.values() for partial in window]
        with file.open("wb") as target:
            if partials:
                pl.concat(partials).write_ipc(target, compression="lz4")
            target.flush()
            os.fsync(target.fileno())


def _merged(partials: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(partials).group_by("w", "k").agg(pl.col("n").sum(), pl.col("s").sum())
