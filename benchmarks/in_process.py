"""W: 5 M rows, 10,000 keys, 10 s tumbling count on event time, jitter under 1 s; rows come as columns, no Kafka.

usage: in_process.py engine|ceiling
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import polars as pl
from measuring.figures import Stopwatch
from workloads.data import WINDOW_MS, columns

from headrace.local.engine.rows_run import run_on_rows
from headrace.spec.reading.read import pipeline_from_dict

ROWS, BATCH_ROWS = 5_000_000, 32_768


PIPELINE: dict[str, Any] = {
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
    "sinks": {"out": {"from": "counted", "print": {}}},
}


def events() -> pl.DataFrame:
    key, ts, _ = columns(ROWS)
    return pl.DataFrame({"k": key, "ts": pl.Series(ts * 1000).cast(pl.Datetime("us", "UTC"))})


def expected_groups() -> int:
    key, ts, _ = columns(ROWS)
    return len(np.unique(ts // WINDOW_MS * 100_000 + key))


def engine(whole: pl.DataFrame) -> dict[str, float]:
    """Runs the local job: source task, event time, chain, windows, sink; batches of 32,768 rows."""
    pipeline = pipeline_from_dict(PIPELINE)
    run_on_rows(pipeline, {"events": whole.head(10_000)})
    watch = Stopwatch.start()
    made = run_on_rows(pipeline, {"events": whole})
    return watch.report(ROWS, made.outputs["out"].frame().height)


def ceiling(whole: pl.DataFrame) -> dict[str, float]:
    """A group by for each batch and one at the end of each window; no time, no late rows."""
    batches = [whole.slice(begin, BATCH_ROWS) for begin in range(0, ROWS, BATCH_ROWS)]
    counted(batches[:2])
    watch = Stopwatch.start()
    return watch.report(ROWS, counted(batches))


def counted(batches: list[pl.DataFrame]) -> int:
    windows: dict[int, list[pl.DataFrame]] = {}
    for batch in batches:
        made = batch.group_by((pl.col("ts").dt.timestamp("ms") // WINDOW_MS).alias("w"), "k").agg(pl.len().alias("n"))
        for window in made["w"].unique().to_list():
            windows.setdefault(window, []).append(made.filter(pl.col("w") == window))
    return sum(pl.concat(part).group_by("k").agg(pl.col("n").sum()).height for part in windows.values())


if __name__ == "__main__":
    figures = engine(events()) if sys.argv[1] == "engine" else ceiling(events())
    assert figures["rows_out"] == expected_groups(), figures
    print(json.dumps(figures), flush=True)
