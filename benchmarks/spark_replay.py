"""Measures replays on Spark in a warm session: over Parquet against Spark SQL's group by, over Kafka, from a savepoint.

    files source (8 partitions) -> tumbling 60 s: sum, count, min, max by key -> files sink, a savepoint at the cut
    Spark SQL: groupBy(key, window) with the same aggregates, written as Parquet

L has 1,000 keys, H 100,000. CPU seconds are of the whole process tree (driver, JVM, Python workers; a broker is not
counted). The replay also drops late rows, writes state, and publishes.

    kafka     JSON rows from a topic, tumbling 10 s: count and sum by key; results stay staged; compared with the bare
              loop of K (`bare_loop.py`), in one process and without Spark
    restore   a savepoint with all windows of H open, read into a step's state, in this process
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
from measuring.figures import median
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from run import child
from workloads.data import PARTITIONS as KAFKA_PARTITIONS
from workloads.data import fill
from workloads.pipelines import windowed

from headrace.checkpoint.savepoints.savepoint import find
from headrace.checkpoint.stores.opening import read_url_range
from headrace.core.clock import SystemClock
from headrace.execution.planning import JobPlans
from headrace.local.topics.topics import create_topic
from headrace.plan.physical import StepSpec
from headrace.spark.cluster.session import session
from headrace.spark.driver.exchange import RddExchange
from headrace.spark.driver.replay import Replay, ReplayWish
from headrace.spec.reading.load import load_text
from headrace.worker.state.restore import restored_states
from headrace_dev.broker import BrokerConfig, EmbeddedBroker

PARTITIONS = 8
UNCOUNTED: set[int] = set()
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
      out_of_orderness: {disorder}
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
        numbers = np.char.zfill(generator.integers(0, keys, count).astype("U7"), 7)
        table = pa.table(
            {
                "key": pa.array(np.char.add("user-", numbers)),
                "ts": pa.array((base + jitter) * 1000, pa.timestamp("us", "UTC")),
                "value": pa.array(generator.normal(100.0, 30.0, count)),
            }
        )
        pq.write_table(table, folder / f"part-{partition:03d}.parquet", compression="zstd", row_group_size=131_072)


def tree_cpu_s() -> float:
    """CPU seconds of this process and its descendants so far, without brokers."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        if process.pid in UNCOUNTED:
            continue
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def measured(run: Callable[[], object]) -> float:
    """CPU seconds of a call."""
    begun = tree_cpu_s()
    run()
    return tree_cpu_s() - begun


def replay(spark: SparkSession, data: Path, scratch: Path, *, disorder: str = "5s") -> str:
    """Runs the pipeline and returns the path of its savepoint."""
    shutil.rmtree(scratch, ignore_errors=True)
    text = PIPELINE.format(data=data, out=scratch / "out", partitions=PARTITIONS, disorder=disorder)
    plans = JobPlans(load_text(text, "bench", environ={}).pipeline.to_dict())
    wish = ReplayWish(
        job="replay-bench-1",
        storage=str(scratch / "storage"),
        parallelism=2,
        savepoint=str(scratch / "savepoints"),
    )
    path = Replay(plans, wish, RddExchange(spark), SystemClock()).run().savepoint
    assert path is not None
    return path


def group_by(spark: SparkSession, data: Path, scratch: Path) -> None:
    """Runs the same aggregates in Spark SQL."""
    shutil.rmtree(scratch, ignore_errors=True)
    rows = spark.read.parquet(str(data))
    grouped = rows.groupBy("key", sql.window("ts", "60 seconds")).agg(
        sql.count("*"), sql.sum("value"), sql.min("value"), sql.max("value")
    )
    grouped.write.parquet(str(scratch / "sql"))


def beside_sql(spark: SparkSession, data: Path, scratch: Path, times: int) -> dict[str, float]:
    """CPU seconds of both: medians of alternating runs; the first pair is warm-up."""
    engine: list[float] = []
    ceiling: list[float] = []
    for _ in range(times + 1):
        ceiling.append(measured(lambda: group_by(spark, data, scratch)))
        engine.append(measured(lambda: replay(spark, data, scratch)))
        print(f"{data.name}: engine {engine[-1]:.2f} s, sql {ceiling[-1]:.2f} s", file=sys.stderr)
    ours, sqls = median(engine[1:]), median(ceiling[1:])
    return {"engine_cpu_s": ours, "sql_cpu_s": sqls, "ratio": ours / sqls}


def from_kafka(spark: SparkSession, scratch: Path, brokers: str) -> None:
    """Runs the pipeline over a topic; its results stay staged."""
    shutil.rmtree(scratch, ignore_errors=True)
    plans = JobPlans(windowed(brokers, "events", "sums"))
    wish = ReplayWish(job="replay-bench-k-1", storage=str(scratch / "storage"), parallelism=2, publish=False)
    Replay(plans, wish, RddExchange(spark), SystemClock()).run()


def restored_rows_per_cpu_s(path: str) -> float:
    """States of a savepoint per CPU second, into the step's live state."""
    found = find(path).manifest
    text = PIPELINE.format(data="any", out="any", partitions=PARTITIONS, disorder="5s")
    plan = JobPlans(load_text(text, "bench", environ={}).pipeline.to_dict()).plan(2)
    step = next(node for task in plan.tasks for node in task.nodes if node.node == "sums")
    assert isinstance(step, StepSpec)
    rows = sum(handle.rows for handle in found.states if handle.state == "windows")
    begun = time.process_time()
    for subtask in range(2):
        states = restored_states(found.states, ["sums"], subtask, of=2, max_parallelism=128, read=read_url_range)
        step.config.open().restore(states["sums"])
    return rows / (time.process_time() - begun)


def beside_bare_loop(folder: Path, rows: int, times: int) -> dict[str, float]:
    """Rows of a topic per CPU second, and those of a bare loop in one process: medians of alternating runs; the first
    pair is warm-up."""
    with EmbeddedBroker(BrokerConfig(folder / "broker")) as broker:
        UNCOUNTED.update(process.pid for process in psutil.Process().children(recursive=True))
        create_topic(broker.bootstrap, "events", partitions=KAFKA_PARTITIONS)
        create_topic(broker.bootstrap, "sums", partitions=KAFKA_PARTITIONS)
        fill(broker.bootstrap, "events", rows)
        engine: list[float] = []
        ceiling: list[float] = []
        with session("bench", "local[2]", {}) as spark:
            for _ in range(times + 1):
                engine.append(rows / measured(lambda: from_kafka(spark, folder / "scratch", broker.bootstrap)))
                ceiling.append(child("bare_loop.py", "k", broker.bootstrap, "events", "sums")["rows_per_cpu_s"])
                print(f"kafka: engine {engine[-1]:,.0f}, bare loop {ceiling[-1]:,.0f} rows/CPU-s", file=sys.stderr)
    return {"kafka_rows_per_cpu_s": median(engine[1:]), "bare_loop_rows_per_cpu_s": median(ceiling[1:])}


def main() -> None:
    """Prints one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--kafka-rows", type=int, default=3_000_000)
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    figures: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder, session("bench", "local[2]", {}) as spark:
        scratch = Path(folder) / "scratch"
        for keys in arguments.keys:
            data = Path(folder) / f"data-{keys}"
            data.mkdir()
            make_data(data, arguments.rows, keys)
            figures[str(keys)] = beside_sql(spark, data, scratch, arguments.times)
        saved = replay(spark, data, scratch, disorder="2h")
        figures["restored_states_per_cpu_s"] = restored_rows_per_cpu_s(saved)
    with tempfile.TemporaryDirectory() as folder:
        figures |= beside_bare_loop(Path(folder), arguments.kafka_rows, arguments.times)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
