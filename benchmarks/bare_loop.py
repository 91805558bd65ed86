"""The upper bound of K and P: the same steps in one loop without an engine: consume, parse, compute, serialise,
produce, flush and commit once a second. No operators, no late rows, no bad rows, sums in arrival order.

usage: bare_loop.py k|p BROKERS SOURCE SINK [follow]

follow: from the topic's end on until stdin closes; else to its end
"""

from __future__ import annotations

import gc
import io
import json
import os
import sys
import threading
import time
from collections import deque
from itertools import repeat
from typing import Any

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import polars as pl
from bare_steps.partition_runs import PartitionRun, partition_runs
from bare_steps.window_state import WindowState
from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition
from measuring.figures import Stopwatch
from workloads.data import PARTITIONS, WINDOW_MS

SCHEMA = {"k": pl.Int64, "ts": pl.Int64, "v": pl.Float64}
STEP_ROWS = {"k": 64_000, "p": 16_000}


class Loop:
    def __init__(self, job: str, brokers: str, source: str, sink: str, *, follow: bool) -> None:
        self.job, self.source, self.sink, self.follow = job, source, sink, follow
        self.over = threading.Event()
        self.consumer = Consumer(
            {
                "bootstrap.servers": brokers,
                "group.id": "bare-loop",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "isolation.level": "read_committed",
                "fetch.queue.backoff.ms": 10,
                "fetch.wait.max.ms": 10 if follow else 500,
            }
        )
        self.producer = Producer(
            {
                "bootstrap.servers": brokers,
                "compression.type": "lz4",
                "linger.ms": 0 if follow else 20,
                "batch.size": 262_144,
                "acks": "all",
                "enable.idempotence": True,
                "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": 500_000,
                "delivery.report.only.error": True,
                "on_delivery": lambda error, _: sys.exit(f"delivery {error}") if error else None,
            }
        )
        self.positions: dict[int, int] = {}
        self.seen = dict.fromkeys(range(PARTITIONS), 0)
        self.windows = WindowState(WINDOW_MS)
        self.round = self.rows_in = self.rows_out = 0

    def run(self) -> dict[str, Any]:
        ends = {
            p: self.consumer.get_watermark_offsets(TopicPartition(self.source, p), 10)[1] for p in range(PARTITIONS)
        }
        start = OFFSET_END if self.follow else 0
        self.warm_up()
        self.consumer.assign([TopicPartition(self.source, p, start) for p in range(PARTITIONS)])
        watch = Stopwatch.start()
        if self.follow:
            threading.Thread(target=self.end_when_stdin_closes, daemon=True).start()
        commit_due = time.perf_counter() + 1
        while not self.over.is_set():
            values, runs = self.poll()
            if values:
                self.work(values, runs)
            if time.perf_counter() > commit_due:
                self.commit()
                commit_due = time.perf_counter() + 1
            if not self.follow and all(self.positions.get(p, 0) >= ends[p] for p in ends):
                break
            self.producer.poll(0)
        if self.job == "k":
            self.close_windows(1 << 60)
        self.commit()
        return watch.report(self.rows_in, self.rows_out)

    def end_when_stdin_closes(self) -> None:
        sys.stdin.read()
        self.over.set()

    def warm_up(self) -> None:
        frame = pl.read_ndjson(b'{"k":1,"ts":1,"v":1.0}\n', schema=SCHEMA)
        state = WindowState(WINDOW_MS)
        state.add(frame)
        state.add(frame)
        list(state.close(1 << 60))
        frame.filter(pl.col("v") > 0.5).write_ndjson(io.BytesIO())

    def poll(self) -> tuple[list[bytes], list[PartitionRun]]:
        values: list[bytes] = []
        runs: list[PartitionRun] = []
        while len(values) < STEP_ROWS[self.job]:
            messages = self.consumer.consume(2000, 0.005 if self.follow else 0.02)
            if not messages:
                break
            fresh = partition_runs(messages, len(values))
            self.positions |= {run.partition: run.end for run in fresh}
            runs += fresh
            values += [message.value() or b"" for message in messages]
            if self.follow:
                break
        return values, runs

    def work(self, values: list[bytes], runs: list[PartitionRun]) -> None:
        self.rows_in += len(values)
        frame = pl.read_ndjson(b"\n".join(values), schema=SCHEMA)
        if self.job == "p":
            self.send(frame.filter(pl.col("v") > 0.5))
            return
        times = frame["ts"]
        for run in runs:
            newest = times.slice(run.begin, run.length).max()
            assert isinstance(newest, int), "a run has rows, and their times are whole numbers"
            self.seen[run.partition] = max(self.seen[run.partition], newest)
        self.windows.add(frame)
        self.close_windows(min(self.seen.values()) - 1_001)

    def close_windows(self, watermark: int) -> None:
        for rows in self.windows.close(watermark):
            self.send(rows)

    def send(self, rows: pl.DataFrame) -> None:
        buffer = io.BytesIO()
        rows.write_ndjson(buffer)
        lines = buffer.getvalue().split(b"\n")
        lines.pop()
        self.rows_out += len(lines)
        for begin in range(0, len(lines), 2000):
            self.round = (self.round + 1) % PARTITIONS
            while len(self.producer) > 900_000:
                self.producer.poll(0.01)
            chunk = lines[begin : begin + 2000]
            deque(map(self.producer.produce, repeat(self.sink), chunk, repeat(None), repeat(self.round)), maxlen=0)
        self.producer.poll(0)

    def commit(self) -> None:
        self.producer.flush(30)
        if self.positions:
            offsets = [TopicPartition(self.source, p, offset) for p, offset in self.positions.items()]
            self.consumer.commit(offsets=offsets, asynchronous=True)


if __name__ == "__main__":
    gc.disable()
    job, brokers, source, sink, *rest = sys.argv[1:]
    print(json.dumps(Loop(job, brokers, source, sink, follow=bool(rest)).run()), flush=True)
    os._exit(0)
