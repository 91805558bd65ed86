"""A module with a function for map steps."""

from __future__ import annotations

import polars as pl


def doubled(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select("key", (pl.col("amount") * 2).alias("amount"))
