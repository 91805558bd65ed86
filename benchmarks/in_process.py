"""W: 5 M rows, 10,000 keys, 10 s tumbling count on event time, jitter under 1 s; rows come as columns, no Kafka.

usage: in_process.py engine|ceiling
"""

from __future__ import annotations

import json
import os
import sys

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import polars as pl
from data import WINDOW_MS, columns
from measure import Stopwatch

ROWS, BATCH_ROWS = 5_000_000, 32_768


def frames() -> list[pl.DataFrame]:
    key, ts, _ = columns(ROWS)
    whole = pl.DataFrame({"k": key, "ts": pl.Series(ts * 1000).cast(pl.Datetime("us", "UTC"))})
    return [whole.slice(begin, BATCH_ROWS).rechunk() for begin in range(0, ROWS, BATCH_ROWS)]


def expected_groups() -> int:
    key, ts, _ = columns(ROWS)
    return len(np.unique(ts // WINDOW_MS * 100_000 + key))


def engine(batches: list[pl.DataFrame]) -> dict[str, float]:
    from headrace.testing.pipeline import prepare_pipeline

    pipeline = {
        "name": "bench-w",
        "sources": {
            "events": {
                "memory": {"name": "unused"},
                "schema": {"k": "int64", "ts": "timestamp"},
                "time": {"column": "ts", "out_of_orderness": "1s"},
            }
        },
        "steps": {
            "counted": {
                "from": "events",
                "key_by": ["k"],
                "window": {"tumbling": "10s"},
                "aggregate": {"n": "count(*)"},
            }
        },
        "sinks": {"out": {"from": "counted", "memory": {"name": "unused"}}},
    }
    prepared = prepare_pipeline(pipeline, {"events": batches})
    watch = Stopwatch.start()
    results = prepared.run()
    return watch.report(ROWS, results.rows("out").height)


def ceiling(batches: list[pl.DataFrame]) -> dict[str, float]:
    watch = Stopwatch.start()
    windows: dict[int, list[pl.DataFrame]] = {}
    for batch in batches:
        made = batch.group_by((pl.col("ts").dt.timestamp("ms") // WINDOW_MS).alias("w"), "k").agg(pl.len().alias("n"))
        for window in made["w"].unique().to_list():
            windows.setdefault(window, []).append(made.filter(pl.col("w") == window))
    rows = sum(pl.concat(part).group_by("k").agg(pl.col("n").sum()).height for part in windows.values())
    return watch.report(ROWS, rows)


if __name__ == "__main__":
    figures = engine(frames()) if sys.argv[1] == "engine" else ceiling(frames())
    assert figures["rows_out"] == expected_groups(), figures
    print(json.dumps(figures), flush=True)
