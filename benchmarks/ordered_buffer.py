"""The ordered buffer in this process: rows that come in disorder, wait for 10 s of event time, and leave in order.

100 rows a millisecond, up to a second out of order, of 10,000 and of 1 M int64 keys, in batches of 8,192; a watermark
every four batches, a snapshot every 500,000 rows, so that a million rows wait. Prints rows per CPU-second: in (`put`),
out (`due`, to the last frame), in and out with snapshots. Beside it, in the same run, the ceiling: polars sorts all of
these rows once by the same columns. Medians of rounds, with their spread, and what snapshots cost.

    python benchmarks/ordered_buffer.py [rows] [rounds]
"""

from __future__ import annotations

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import polars as pl

from headrace.core.batch import ORDER_COLUMNS, TS, WM
from headrace.core.signals import TIME_MAX
from headrace.state.ordered_buffer import OrderedBuffer

KEYS = (10_000, 1_000_000)
BATCH_ROWS = 8_192
BATCHES_A_WATERMARK = 4
ROWS_A_SNAPSHOT = 500_000
ROWS_A_MS = 100
DISORDER_MS = 1_000
LATENESS_MS = 10_000
PARTITIONS = 4


def rows_of(count: int, keys: int) -> pl.DataFrame:
    random = np.random.default_rng(1)
    numbers = np.arange(count)
    times = 1_700_000_000_000 + numbers // ROWS_A_MS + random.integers(0, DISORDER_MS, count)
    return pl.DataFrame(
        {
            "key": random.integers(0, keys, count),
            "units": random.integers(0, 1_000, count),
            "city": pl.Series(["Amsterdam", "Berlin", "Copenhagen"])[random.integers(0, 3, count)],
            TS: times,
            WM: np.maximum.accumulate(times) - DISORDER_MS - 1,
            "__o_node": ["orders"] * count,
            "__o_text": ["orders-topic"] * count,
            "__o_major": numbers % PARTITIONS,
            "__o_minor": numbers // PARTITIONS,
            "__o_index": np.zeros(count, np.int64),
        }
    )


class Costs:
    """CPU seconds by name."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.longest_ms: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        begin = time.process_time()
        yield
        took = time.process_time() - begin
        self.seconds[name] += took
        self.longest_ms[name] = max(self.longest_ms[name], took * 1e3)


def through(rows: pl.DataFrame) -> tuple[Costs, int]:
    """What it costs to send the rows through a buffer, and how many rows its snapshots would have written."""
    columns = {name: dtype for name, dtype in rows.schema.items() if name != WM}
    buffer = OrderedBuffer("waiting", ["key"], columns=columns, lateness_ms=LATENESS_MS, max_parallelism=128)
    costs, out, written, before = Costs(), 0, 0, set[int]()
    for number, begin in enumerate(range(0, rows.height, BATCH_ROWS), 1):
        batch = rows[begin : begin + BATCH_ROWS].rechunk()
        with costs.of("in"):
            late = buffer.put(batch, 0)
        assert not late.height, "no row is late"
        if number % BATCHES_A_WATERMARK == 0:
            with costs.of("out"):
                out += sum(frame.height for frame in buffer.due(int(batch.item(-1, WM))))
        if begin // ROWS_A_SNAPSHOT < (begin + BATCH_ROWS) // ROWS_A_SNAPSHOT:
            with costs.of("snapshot"):
                state, _ = buffer.snapshot()
            written += sum(chunk.frame.height for chunk in state.chunks if chunk.id not in before)
            before = {chunk.id for chunk in state.chunks}
    with costs.of("out"):
        out += sum(frame.height for frame in buffer.due(TIME_MAX))
    assert (out, buffer.rows) == (rows.height, 0), "all rows leave"
    return costs, written


def ceiling(rows: pl.DataFrame) -> Costs:
    costs = Costs()
    with costs.of("polars"):
        rows.sort(["key", TS, *ORDER_COLUMNS])
    return costs


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    for keys in KEYS:
        rows = rows_of(count, keys)
        figures: defaultdict[str, list[float]] = defaultdict(list)
        for _ in range(rounds):
            costs, written = through(rows)
            costs.seconds["in, out, snapshots"] = sum(costs.seconds.values())
            costs.seconds |= ceiling(rows).seconds
            for name, seconds in costs.seconds.items():
                figures[name].append(count / seconds / 1e3)
        for name, rates in figures.items():
            print(
                f"{keys:9,} keys  {name:18s} {statistics.median(rates):8,.0f} k rows per CPU-second"
                f" ({min(rates):,.0f} to {max(rates):,.0f})"
            )
        print(
            f"{keys:9,} keys  snapshots would write {written / count:.2f} rows for each row;"
            f" the longest took {costs.longest_ms['snapshot']:.1f} ms of CPU"
        )


if __name__ == "__main__":
    main()
