"""The data set of the Kafka benchmarks: JSON messages of about 57 bytes, 10,000 keys, 100 k events an event-second,
timestamps jittered by under 1 s, and a few far-future rows in each partition that close the windows."""

from __future__ import annotations

import numpy as np
from confluent_kafka import Producer

KEYS, RATE, WINDOW_MS, START_MS, PARTITIONS, MARKERS = 10_000, 100_000, 10_000, 1_700_000_000_000, 4, 50


def columns(rows: int, seed: int = 7, *, keys: int = KEYS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """key, ts (ms), v of `rows` events."""
    rng = np.random.default_rng(seed)
    key = rng.integers(0, keys, rows, dtype=np.int64)
    ts = START_MS + (np.arange(rows, dtype=np.int64) * 1000) // RATE + rng.integers(0, 1000, rows)
    return key, ts, rng.random(rows)


def fill(brokers: str, topic: str, rows: int) -> None:
    """Writes the data set round robin over the topic's partitions."""
    producer = Producer(
        {
            "bootstrap.servers": brokers,
            "compression.type": "lz4",
            "linger.ms": 50,
            "batch.size": 500_000,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 1_000_000,
            "enable.idempotence": True,
        }
    )
    key, ts, v = columns(rows)
    for index, (k, t, x) in enumerate(zip(key.tolist(), ts.tolist(), v.tolist(), strict=True)):
        message = b'{"k": %d, "ts": %d, "v": %s}' % (k, t, repr(x).encode())
        while True:
            try:
                producer.produce(topic, message, None, index % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        if index % 10_000 == 0:
            producer.poll(0)
    for partition in range(PARTITIONS):
        for marker in range(MARKERS):
            message = b'{"k": %d, "ts": %d, "v": 0.0}' % (-1 - marker, START_MS + 10**8)
            producer.produce(topic, message, None, partition)
    producer.flush()
