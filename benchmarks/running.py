"""The running aggregate in this process, with more keys than a batch touches: what a batch costs, and what its state.

Fills the operator with `keys` int64 keys, then sends batches of 1,000 rows: with random keys, and with 10,000 hot keys.
Prints CPU milliseconds a batch (medians), the memory of the process, and how long a snapshot takes. With a budget the
rest of the state lies in local files of the system's temporary folder.

    python benchmarks/running.py [keys] [batches] [budget in MiB]
"""

from __future__ import annotations

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from window import Drain

from headrace.core.types import schema_of
from headrace.operators.aggregate import AggregateConfig
from headrace.operators.operator import Operator
from headrace.state.place import Budget, StatePlace
from headrace.worker.state.local_files import LocalFiles
from headrace.worker.state.opened_place import BackgroundMerges

BATCH_ROWS = 1000
FILLING_ROWS = 32_768
HOT_KEYS = 10_000
INPUT = schema_of({"key": "int64 not null", "units": "int64"})
AGGREGATES = {"n": "count(*)", "total": "sum(units)", "low": "min(units)", "high": "max(units)"}


def rows_of(keys: np.ndarray[tuple[int], np.dtype[np.int64]], random: np.random.Generator) -> pl.DataFrame:
    times = np.full(len(keys), 1_700_000_000_000)
    return pl.DataFrame({"key": keys, "units": random.integers(-1000, 1000, len(keys)), "__ts": times})


def filled(keys: int, random: np.random.Generator, place: StatePlace) -> Operator:
    config, out = AggregateConfig("totals", ("key",), None, tuple(AGGREGATES.items()), INPUT), Drain()
    operator = config.open_in(place)
    order = random.permutation(keys)
    for start in range(0, keys, FILLING_ROWS):
        operator.on_batch(rows_of(order[start : start + FILLING_ROWS], random), out)
    return operator


def batch_ms(operator: Operator, keys: int, batches: int, random: np.random.Generator) -> list[float]:
    taken = []
    for _ in range(batches):
        batch, out = rows_of(random.integers(0, keys, BATCH_ROWS), random), Drain()
        begin = time.process_time()
        operator.on_batch(batch, out)
        taken.append((time.process_time() - begin) * 1e3)
        assert out.rows, "every touched key is emitted"
    return taken


def anonymous_mb() -> int:
    found = [
        line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon")
    ]
    return int(found[0]) // 1024


def main() -> None:
    keys = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000
    batches = int(sys.argv[2]) if len(sys.argv) > 2 else 500
    place = StatePlace(merges=BackgroundMerges())
    if len(sys.argv) > 3:
        files = LocalFiles(Path(tempfile.gettempdir()))
        place = StatePlace(budget=Budget(int(sys.argv[3]) << 20), merges=place.merges, files=files)
    random = np.random.default_rng(1)
    before_mb, begin = anonymous_mb(), time.process_time()
    operator = filled(keys, random, place)
    took = time.process_time() - begin
    print(f"filled with {keys:,} keys: {took / keys * 1e9:.0f} ns a key, {anonymous_mb() - before_mb:,} MB")
    for name, drawn in (("random keys", keys), ("hot keys", HOT_KEYS)):
        taken = batch_ms(operator, drawn, batches, random)
        cuts = statistics.quantiles(taken, n=20)
        spread = f"(p95 {cuts[-1]:.2f}, most {max(taken):.1f})"
        print(f"{name:12s} {statistics.median(taken):6.2f} ms a batch of {BATCH_ROWS:,} {spread}")
    begin = time.process_time()
    operator.snapshot()
    print(f"snapshot     {(time.process_time() - begin) * 1e3:6.2f} ms")
    print(f"state        {place.budget.memory_bytes >> 20:,} MiB in memory, {place.budget.file_bytes >> 20:,} in files")


if __name__ == "__main__":
    main()
