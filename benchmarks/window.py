"""W: the windowed aggregate in this process, without a broker and without an engine.

5 M rows by default: int64 key of 10,000 values, 100,000 rows per second of event time, jitter below 1 s, tumbling 10 s,
watermark = greatest event time - 1 s after each batch of 32,768. Prints rows per CPU-second of the process (medians),
for the count and for exact sums, with the bare polars group_by of the same rows as the ceiling.

    python benchmarks/window.py [rows] [rounds]
"""

from __future__ import annotations

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import polars as pl

from headrace.core.signals import TIME_MAX
from headrace.core.types import schema_of
from headrace.operators.aggregate import AggregateConfig
from headrace.operators.window.definitions import Sliding, Tumbling, Window

BATCH_ROWS = 32_768
KEYS = 10_000
INPUT = schema_of({"key": "int64 not null", "value": "float64", "units": "int64"})
Batches = list[tuple[pl.DataFrame, int]]


class Drain:
    """Counts the operator's output rows."""

    def __init__(self) -> None:
        self.rows = 0

    def emit(self, batch: pl.DataFrame) -> None:
        self.rows += batch.height

    def emit_side(self, output: str, batch: pl.DataFrame) -> None:
        raise AssertionError(f"nothing goes to {output} here: {batch}")

    def count(self, counter: str, rows: int) -> None:
        raise AssertionError(f"nothing counts as {counter} here: {rows}")


def batches(rows: int) -> Batches:
    random = np.random.default_rng(1)
    times = np.arange(rows) // 100 - random.integers(0, 1000, rows) + 1_700_000_000_000
    columns = {
        "key": random.integers(0, KEYS, rows),
        "value": random.normal(100, 30, rows),
        "units": random.integers(-1000, 1000, rows),
        "__ts": times,
    }
    made = []
    watermark = -(1 << 63)
    for start in range(0, rows, BATCH_ROWS):
        batch = pl.DataFrame({name: column[start : start + BATCH_ROWS] for name, column in columns.items()})
        watermark = max(watermark, int(times[start : start + BATCH_ROWS].max()) - 1000)
        made.append((batch, watermark))
    return made


def headrace(data: Batches, window: Window, aggregates: dict[str, str]) -> None:
    config = AggregateConfig("hourly", ("key",), window, tuple(aggregates.items()), INPUT)
    operator, out = config.open(), Drain()
    for batch, watermark in data:
        operator.on_batch(batch, out)
        operator.on_watermark(watermark, out)
    operator.on_watermark(TIME_MAX, out)
    assert out.rows >= KEYS, "windows fired"


def bare(data: Batches) -> None:
    for batch, _ in data:
        batch.group_by("key").agg(pl.len())


def cpu_seconds(run: Callable[[], None]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    data = batches(rows)
    ten = Tumbling(10_000)
    cases: dict[str, Callable[[], None]] = {
        "bare polars group_by per batch": lambda: bare(data),
        "W: count": lambda: headrace(data, ten, {"n": "count(*)"}),
        "count, int sum, min, max": lambda: headrace(
            data, ten, {"n": "count(*)", "s": "sum(units)", "low": "min(units)", "high": "max(units)"}
        ),
        "exact float sum": lambda: headrace(data, ten, {"s": "sum(value)"}),
        "exact float avg": lambda: headrace(data, ten, {"m": "avg(value)"}),
        "exact float stddev": lambda: headrace(data, ten, {"d": "stddev(value)"}),
        "count distinct": lambda: headrace(data, ten, {"d": "count(distinct units)"}),
        "sliding 10s every 2s: count": lambda: headrace(data, Sliding(10_000, 2_000), {"n": "count(*)"}),
    }
    for name, run in cases.items():
        speeds = [rows / cpu_seconds(run) / 1e6 for _ in range(rounds)]
        print(f"{name:34s} {statistics.median(speeds):6.2f} M rows/CPU-s  ({min(speeds):.2f} to {max(speeds):.2f})")


if __name__ == "__main__":
    main()
