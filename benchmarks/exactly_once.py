"""Measures the cost of exactly-once with `headrace run` in slot processes, a checkpoint a second, state in memory.

usage: exactly_once.py [--only cost|latency|recovery] [--pairs N] [--rows N]
(benchmarks/run.py --only exactly-once runs all of it, too)

    cost      K and P, exactly-once beside at-least-once in alternating pairs: rows per CPU-second of all processes,
              from the first checkpoint to the last one before the end: start, warm-up and end are left out
    latency   P at 1,000 messages a second: from the time of the `checkpoint` record to a read_committed reader
    recovery  the same job, a slot process killed: from the kill to the next record in the output topic
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from latency import RATE
from measuring.figures import Figure, alternating
from measuring.output_reader import OutputReader
from measuring.parts import on_broker
from measuring.slot_run import Run, rows_per_cpu_s, started
from workloads.data import PARTITIONS, fill
from workloads.pipelines import passed, windowed
from workloads.steady_feed import Feed

from headrace.checkpoint.journal.records import CheckpointRecord
from headrace.local.topics.topics import create_topic

ROWS, PAIRS = 6_000_000, 5
INTERVAL_MS = 1_000
LATENCY_S, SETTLE_EPOCHS = 30.0, 3
CHECKPOINTS = 14
"""Duration of a run of `cost` in s; shorter if all rows are read earlier."""
PARTS = ("cost", "latency", "recovery")
DELIVERIES = ("at-least-once", "exactly-once")
_number = itertools.count()


def with_delivery(pipeline: dict[str, Any], delivery: str) -> dict[str, Any]:
    """The pipeline with a checkpoint a second; all checkpoints are kept, because the journal is read afterwards."""
    pipeline["sinks"]["out"]["kafka"]["delivery"] = delivery
    return pipeline | {"checkpoint": {"interval": f"{INTERVAL_MS}ms", "retained": 1_000}}


def cost(name: str, brokers: str, folder: Path, *, pairs: int, rows: int) -> Figure:
    """The pipeline exactly-once and at-least-once, in alternating runs."""
    made = {"K": windowed, "P": passed}[name]

    def run(delivery: str) -> float:
        sink = f"out-{next(_number)}"
        create_topic(brokers, sink, partitions=PARTITIONS, config={"retention.ms": "-1"})
        with started(with_delivery(made(brokers, "large", sink), delivery), folder / sink) as under_way:
            speed = rows_per_cpu_s(under_way, under_way.follow(CHECKPOINTS), rows)
            under_way.stop()
        return speed

    once, at_least = (lambda delivery=delivery: run(delivery) for delivery in ("exactly-once", "at-least-once"))
    return alternating(f"{name} exactly once", pairs, once, at_least)


@dataclass(frozen=True, slots=True)
class Delays:
    """Latencies in ms after the time in the epoch's `checkpoint` record. `seen`: until a reader receives a row, one per
    row; `committed`: until the epoch's `committed` record is begun, one per epoch."""

    seen: np.ndarray[Any, np.dtype[np.float64]]
    committed: np.ndarray[Any, np.dtype[np.float64]]


def latency(brokers: str, folder: Path, parallelism: int) -> Delays:
    """Sends P a thousand messages a second and reads its output with read_committed."""
    source, sink = f"steady-{next(_number)}", f"seen-{next(_number)}"
    for topic in (source, sink):
        create_topic(brokers, topic, partitions=PARTITIONS)
    pipeline = with_delivery(passed(brokers, source, sink, bounded=False), "exactly-once")
    with started(pipeline, folder / sink, "--parallelism", str(parallelism)) as run:
        with OutputReader(brokers, sink, "read_committed") as reader:
            run.wait_for_checkpoints(1)
            with Feed(brokers, source, RATE):
                time.sleep(LATENCY_S)
            run.wait_for_checkpoints(len(run.checkpoints()) + 3)
        run.stop()
        return _delays(run, reader.seen_ms)


def _delays(run: Run, seen_ms: dict[int, float]) -> Delays:
    """Row k is in partition k % PARTITIONS at offset k // PARTITIONS, which determines its epoch."""
    committed_ms, checkpoints = run.committed_ms(), run.checkpoints()
    seen: list[float] = []
    for before, after in itertools.pairwise(checkpoints[SETTLE_EPOCHS:]):
        begins, ends = _positions(before), _positions(after)
        rows = [
            offset * PARTITIONS + number
            for number in range(PARTITIONS)
            for offset in range(begins.get(number, 0), ends.get(number, 0))
        ]
        seen += [seen_ms[row] - after.at_ms for row in rows if row in seen_ms]
    closed = [committed_ms[each.manifest.epoch] - each.at_ms for each in checkpoints[SETTLE_EPOCHS:-1]]
    return Delays(np.array(seen), np.array(closed, float))


def _positions(record: CheckpointRecord) -> dict[int, int]:
    return {split.partition: split.position for state in record.manifest.sources.values() for split in state.splits}


def recovery(brokers: str, folder: Path, delivery: str) -> float:
    """Kills the slot process; returns the ms until the output topic has a record of the next attempt."""
    source, sink = f"killed-{next(_number)}", f"healed-{next(_number)}"
    for topic in (source, sink):
        create_topic(brokers, topic, partitions=PARTITIONS)
    pipeline = with_delivery(passed(brokers, source, sink, bounded=False), delivery)
    with started(pipeline, folder / sink) as run:
        with Feed(brokers, source, RATE), OutputReader(brokers, sink, "read_uncommitted") as reader:
            run.wait_for_checkpoints(SETTLE_EPOCHS)
            killed_ms = run.kill_slot()
            resumed_ms: float | None = None
            while resumed_ms is None:
                time.sleep(0.05)
                again_ms = next((when for when in run.attempts_ms() if when > killed_ms), None)
                resumed_ms = None if again_ms is None else reader.first_after(again_ms)
        run.stop()
    return resumed_ms - killed_ms


def costs(brokers: str, folder: Path, pairs: int, rows: int) -> list[Figure]:
    """K and P, exactly-once beside at-least-once."""
    create_topic(brokers, "large", partitions=PARTITIONS, config={"retention.ms": "-1"})
    fill(brokers, "large", rows)
    return [cost(name, brokers, folder, pairs=pairs, rows=rows) for name in ("K", "P")]


def latencies(brokers: str, folder: Path) -> list[Figure]:
    """The latency of readers after a checkpoint, at a parallelism of 1 and of 2."""
    found: list[Figure] = []
    for parallelism in (1, 2):
        delays = latency(brokers, folder, parallelism)
        for percent in (50, 99):
            name = f"visible p{percent}, parallelism {parallelism}"
            found.append(Figure(name, "ms", [float(np.percentile(delays.seen, percent))], []))
        found.append(Figure(f"committed, parallelism {parallelism}", "ms", list(delays.committed), []))
    return found


def recoveries(brokers: str, folder: Path, pairs: int) -> list[Figure]:
    """The time from a kill to the next record, exactly-once and at-least-once."""
    found: dict[str, list[float]] = {each: [] for each in DELIVERIES}
    for _ in range(pairs):
        for delivery in DELIVERIES:
            found[delivery].append(recovery(brokers, folder, delivery))
    return [Figure("recovery exactly once", "ms", found["exactly-once"], found["at-least-once"])]


def measure(brokers: str, parts: Collection[str], *, pairs: int = PAIRS, rows: int = ROWS) -> list[Figure]:
    """Runs the selected parts on the broker."""
    found: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        if "cost" in parts:
            found += costs(brokers, Path(folder), pairs, rows)
        if "latency" in parts:
            found += latencies(brokers, Path(folder))
        if "recovery" in parts:
            found += recoveries(brokers, Path(folder), pairs)
    return found


if __name__ == "__main__":
    on_broker(__doc__, PARTS, measure, beside="at least once", pairs=PAIRS, rows=ROWS)
