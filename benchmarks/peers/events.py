"""The narrow rows of K, P and keys: `{"k": 1, "ts": 1700000000000, "v": 0.5}`."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from workloads.data import columns

CHUNK_ROWS = 100_000
SCHEMA: dict[str, pl.DataType] = {"k": pl.Int64(), "ts": pl.Int64(), "v": pl.Float64()}


def frame(rows: int, keys: int) -> pl.DataFrame:
    """Returns k (int64), ts (epoch ms, disorder under 1 s) and v (in [0, 1)) of `rows` events; same rows each time."""
    key, ts, v = columns(rows, keys=keys)
    return pl.DataFrame({"k": key, "ts": ts, "v": v}, schema=SCHEMA)


def messages(events: pl.DataFrame) -> Iterator[list[bytes]]:
    """Yields the rows as messages, `CHUNK_ROWS` at a time, in order."""
    text = pl.concat_str(
        pl.lit('{"k": '), pl.col("k"), pl.lit(', "ts": '), pl.col("ts"), pl.lit(', "v": '), pl.col("v"), pl.lit("}")
    )
    for chunk in events.iter_slices(CHUNK_ROWS):
        yield chunk.select(text.cast(pl.Binary)).to_series().to_list()
