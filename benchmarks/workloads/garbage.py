"""1 M JSON messages, 1 % of them malformed in eleven ways: the input of a topic, and the expected output."""

from __future__ import annotations

import numpy as np
from confluent_kafka import Producer

from workloads.data import PARTITIONS, columns

BROKEN: list[bytes | None] = [
    b'{"k": 1, "ts": 17000000',
    b'{"k": "1", "ts": 1, "v": 0.5}',
    b'{"k": 1.5, "ts": 1, "v": 0.5}',
    b'{"k": null, "ts": 1, "v": 0.5}',
    b"",
    b'{"k": 1, "ts": 1, "v": "x\ny"}',
    b'{"k": 1, "ts": 1, "v": "\xff\xfe"}',
    b'[{"k": 1}]',
    b'{"k": 1, "ts": 1, "v": NaN}',
    b"null",
    None,
]


def messages(rows: int) -> tuple[list[bytes | None], int, int]:
    """The messages, how many of them are bad, and how many are tombstones."""
    key, ts, v = columns(rows)
    made: list[bytes | None] = [
        b'{"k": %d, "ts": %d, "v": %s}' % (k, t, repr(x).encode())
        for k, t, x in zip(key.tolist(), ts.tolist(), v.tolist(), strict=True)
    ]
    rng = np.random.default_rng(11)
    broken = rng.choice(rows, rows // 100, replace=False).tolist()
    for number, row in enumerate(broken):
        made[row] = BROKEN[number % len(BROKEN)]
    tombstones = sum(made[row] is None for row in broken)
    return made, len(broken) - tombstones, tombstones


def fill(brokers: str, topic: str, rows: int) -> None:
    """Writes them round robin over the topic's partitions."""
    producer = Producer(
        {"bootstrap.servers": brokers, "linger.ms": 50, "queue.buffering.max.messages": 2_000_000, "acks": "all"}
    )
    made, _, _ = messages(rows)
    for index, message in enumerate(made):
        producer.produce(topic, message, None, index % PARTITIONS)
        if index % 10_000 == 0:
            producer.poll(0)
    producer.flush()
