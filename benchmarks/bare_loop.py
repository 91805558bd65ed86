"""The ceiling of K and P: the same steps in one bare loop, without an engine: consume, parse, work, serialise, produce,
flush and commit once a second. No operators, no late rows, no bad rows, sums in arrival order.

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
from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition
from data import PARTITIONS, WINDOW_MS
from measure import Stopwatch

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
        self.windows: dict[int, list[pl.DataFrame]] = {}
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
        partial = self.partial(frame)
        pl.concat([partial, partial]).group_by("w", "k").agg(pl.col("n").sum(), pl.col("s").sum())
        frame.filter(pl.col("v") > 0.5).write_ndjson(io.BytesIO())

    def poll(self) -> tuple[list[bytes], list[tuple[int, int, int]]]:
        values: list[bytes] = []
        runs: list[tuple[int, int, int]] = []
        while len(values) < STEP_ROWS[self.job]:
            messages = self.consumer.consume(2000, 0.005 if self.follow else 0.02)
            if not messages:
                break
            self.find_runs(messages, len(values), runs)
            values += [message.value() or b"" for message in messages]
            if self.follow:
                break
        return values, runs

    def find_runs(self, messages: list[Any], base: int, runs: list[tuple[int, int, int]]) -> None:
        begin, count = 0, len(messages)
        while begin < count:
            first = messages[begin]
            if first.error():
                sys.exit(str(first.error()))
            partition, offset, low, high = first.partition(), first.offset(), begin, count - 1
            while low < high:
                middle = (low + high + 1) // 2
                message = messages[middle]
                if message.partition() == partition and message.offset() - offset == middle - begin:
                    low = middle
                else:
                    high = middle - 1
            runs.append((partition, base + begin, low - begin + 1))
            self.positions[partition] = offset + low - begin + 1
            begin = low + 1

    def work(self, values: list[bytes], runs: list[tuple[int, int, int]]) -> None:
        self.rows_in += len(values)
        frame = pl.read_ndjson(b"\n".join(values), schema=SCHEMA)
        if self.job == "p":
            self.send(frame.filter(pl.col("v") > 0.5))
            return
        times = frame["ts"]
        for partition, begin, length in runs:
            newest = times.slice(begin, length).max()
            assert isinstance(newest, int), "a run has rows, and their times are whole numbers"
            self.seen[partition] = max(self.seen[partition], newest)
        partial = self.partial(frame)
        for window in partial["w"].unique().to_list():
            frames = self.windows.setdefault(window, [])
            frames.append(partial.filter(pl.col("w") == window))
            if len(frames) >= 24:
                self.windows[window] = [self.merged(frames)]
        self.close_windows(min(self.seen.values()) - 1_001)

    @staticmethod
    def partial(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.group_by((pl.col("ts") // WINDOW_MS).alias("w"), "k").agg(
            pl.len().cast(pl.Int64).alias("n"), pl.col("v").sum().alias("s")
        )

    @staticmethod
    def merged(frames: list[pl.DataFrame]) -> pl.DataFrame:
        return pl.concat(frames).group_by("w", "k").agg(pl.col("n").sum(), pl.col("s").sum())

    def close_windows(self, watermark: int) -> None:
        for window in sorted(w for w in self.windows if (w + 1) * WINDOW_MS <= watermark + 1):
            rows = self.merged(self.windows.pop(window))
            self.send(rows.select("k", (pl.col("w") * WINDOW_MS).alias("w"), "n", "s"))

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
