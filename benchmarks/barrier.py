"""Measures how long a barrier blocks a subtask whose windows have a million keys, while its state is uploaded.

usage: barrier.py [keys, default 1,000,000] [epochs, default 30]

A windowed count and exact sum in a chain receives a million keys, and then a barrier after every 262,144 rows. The
benchmark measures the duration of each barrier's call, in the thread that processes rows, while the uploader's thread
still writes the state of the barrier before. The first epoch writes all of the state. Prints one JSON line.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import polars as pl
from measuring.figures import median

from headrace.checkpoint.stores.opening import open_store
from headrace.core.signals import Barrier
from headrace.core.types import schema_of
from headrace.operators.aggregate import AggregateConfig
from headrace.operators.chain import Link
from headrace.operators.window.definitions import Tumbling
from headrace.rpc.messages import Acked, Declined
from headrace.worker.control import SubtaskSnapshot
from headrace.worker.state.snapshot_documents import UploadPlan
from headrace.worker.state.snapshots import SubtaskSnapshots
from headrace.worker.state.uploader import Uploader

KEYS, EPOCHS, BATCH_ROWS, BATCHES_PER_EPOCH = 1_000_000, 30, 32_768, 8
INPUT = schema_of({"k": "int64 not null", "v": "float64"})
START_MS, WINDOW_MS = 1_700_000_000_000, 24 * 3_600_000


class Uploads:
    """The uploader with its thread, and the subtask's events that fill it."""

    def __init__(self, folder: str) -> None:
        plan = UploadPlan("bench", 1, {"counted": 1}, 128)
        self.acked: list[int] = []
        self.uploader = Uploader(plan, open_store(folder), open_store, self._told)
        self.thread = threading.Thread(target=self.uploader.run)
        self.thread.start()

    def snapshotted(self, snapshot: SubtaskSnapshot) -> None:
        self.uploader.snapshotted(snapshot)

    def input_ended(self, task: str, subtask: int) -> None:
        raise AssertionError("input does not end here")

    def _told(self, word: Acked | Declined) -> None:
        assert isinstance(word, Acked), word
        self.acked.append(word.epoch)


def batch(keys: np.ndarray, random: np.random.Generator) -> pl.DataFrame:
    """Rows of one window."""
    rows = len(keys)
    times = START_MS - START_MS % WINDOW_MS + random.integers(0, WINDOW_MS, rows)
    return pl.DataFrame({"k": keys, "v": random.normal(size=rows), "__ts": times})


def measure(keys: int, epochs: int) -> dict[str, float]:
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        uploads = Uploads(folder)
        snapshots = SubtaskSnapshots("counted", 0, uploads)
        config = AggregateConfig("counted", ("k",), Tumbling(WINDOW_MS), (("n", "count(*)"), ("s", "sum(v)")), INPUT)
        link = Link(config.open(), {}, Counter(), node="counted", states=snapshots)
        every = random.permutation(keys)
        for start in range(0, keys, BATCH_ROWS):
            link.on_batch(batch(every[start : start + BATCH_ROWS], random))
        held: list[float] = []
        for epoch in range(1, epochs + 1):
            uploads.uploader.order(epoch, "")
            begun = time.perf_counter()
            link.on_signal(Barrier(epoch))
            snapshots.complete(epoch)
            held.append((time.perf_counter() - begun) * 1000)
            for _ in range(BATCHES_PER_EPOCH):
                link.on_batch(batch(random.integers(0, keys, BATCH_ROWS), random))
        while len(uploads.acked) < epochs:
            time.sleep(0.01)
        uploads.uploader.stop()
        uploads.thread.join()
    p90 = sorted(held)[len(held) * 9 // 10]
    return {"keys": keys, "first_ms": held[0], "median_ms": median(held), "p90_ms": p90, "longest_ms": max(held)}


def main() -> None:
    keys = int(sys.argv[1]) if len(sys.argv) > 1 else KEYS
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else EPOCHS
    print(json.dumps(measure(keys, epochs)))


if __name__ == "__main__":
    main()
