"""A replay over a Parquet archive beside Spark SQL's own group by over the same files, in one warm session.

    files source (8 partitions) -> tumbling 60 s: sum, count, min, max by key -> files sink, a savepoint at the cut
    Spark SQL: groupBy(key, window) with the same aggregates, written as Parquet

L has 1,000 keys, H 100,000. CPU seconds are of the whole process tree: driver, JVM, Python workers. The replay also
drops late rows, writes state, and publishes. See README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from headrace.coordinator.planning import JobPlans
from headrace.core.clock import SystemClock
from headrace.spark.exchange import RddExchange
from headrace.spark.replay_driver import Replay, ReplayWish
from headrace.spark.session import session
from headrace.spec.load import load_text

PARTITIONS = 8
SPAN_MS = 3_600_000
PIPELINE = """
name: replayed
sources:
  events:
    files: {{path: "{data}/*.parquet", partitions: {partitions}}}
    format: parquet
    schema:
      key: string not null
      ts: timestamp not null
      value: float64 not null
    time:
      column: ts
      out_of_orderness: 5s
steps:
  sums:
    from: events
    key_by: [key]
    window: {{tumbling: 60s}}
    aggregate:
      rows: count(*)
      total: sum(value)
      least: min(value)
      most: max(value)
sinks:
  out:
    from: sums
    files: {{path: "{out}"}}
    format: parquet
"""


def make_data(folder: Path, rows: int, keys: int) -> None:
    """One file for each partition, disordered by up to 4 s, a few rows very late."""
    generator = np.random.default_rng(7)
    count = rows // PARTITIONS
    for partition in range(PARTITIONS):
        base = np.linspace(0, SPAN_MS, count).astype(np.int64) + 1_700_000_000_000
        jitter = generator.integers(-4_000, 1, count)
        late = generator.random(count) < 0.0005
        jitter[late] -= generator.integers(60_000, 400_000, int(late.sum()))
        table = pa.table(
            {
                "key": pa.array(np.char.add("user-", np.char.zfill(generator.integers(0, keys, count).astype("U7"), 7))),
                "ts": pa.array((base + jitter) * 1000, pa.timestamp("us", "UTC")),
                "value": pa.array(generator.normal(100.0, 30.0, count)),
            }
        )
        pq.write_table(table, folder / f"part-{partition:03d}.parquet", compression="zstd", row_group_size=131_072)


def tree_cpu_s() -> float:
    """CPU seconds of this process and all below it, so far."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def measured(run: Callable[[], None]) -> tuple[float, float]:
    """CPU and wall seconds of a call."""
    cpu, wall = tree_cpu_s(), time.monotonic()
    run()
    return tree_cpu_s() - cpu, time.monotonic() - wall


def replay(spark: SparkSession, data: Path, scratch: Path, *, savepoint: bool = True) -> None:
    """The pipeline, to a savepoint."""
    shutil.rmtree(scratch, ignore_errors=True)
    text = PIPELINE.format(data=data, out=scratch / "out", partitions=PARTITIONS)
    plans = JobPlans(load_text(text, "bench", environ={}).pipeline.to_dict())
    wish = ReplayWish(
        job="replay-bench-1",
        storage=str(scratch / "storage"),
        parallelism=2,
        savepoint=str(scratch / "savepoints") if savepoint else None,
    )
    Replay(plans, wish, RddExchange(spark), SystemClock()).run()


def group_by(spark: SparkSession, data: Path, scratch: Path) -> None:
    """Spark SQL's own."""
    shutil.rmtree(scratch, ignore_errors=True)
    rows = spark.read.parquet(str(data))
    grouped = rows.groupBy("key", sql.window("ts", "60 seconds")).agg(
        sql.count("*"), sql.sum("value"), sql.min("value"), sql.max("value")
    )
    grouped.write.parquet(str(scratch / "sql"))


def main() -> None:
    """Prints one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    figures = {}
    with tempfile.TemporaryDirectory() as folder, session("bench", "local[2]", {}) as spark:
        for keys in arguments.keys:
            data, scratch = Path(folder) / f"data-{keys}", Path(folder) / "scratch"
            data.mkdir()
            make_data(data, arguments.rows, keys)
            engine, ceiling = [], []
            for _ in range(arguments.times + 1):
                ceiling.append(measured(lambda: group_by(spark, data, scratch)))
                engine.append(measured(lambda: replay(spark, data, scratch)))
                print(f"{keys}: engine {engine[-1]}, sql {ceiling[-1]}", file=sys.stderr)
            cpu_engine = sorted(cpu for cpu, _ in engine[1:])[len(engine[1:]) // 2]
            cpu_sql = sorted(cpu for cpu, _ in ceiling[1:])[len(ceiling[1:]) // 2]
            figures[str(keys)] = {"engine_cpu_s": cpu_engine, "sql_cpu_s": cpu_sql, "ratio": cpu_engine / cpu_sql}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
