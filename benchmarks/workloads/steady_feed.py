"""Sends a thousand messages a second as long as it is open: row k goes to partition k % PARTITIONS."""

from __future__ import annotations

import threading
import time
from typing import Self

from confluent_kafka import Producer

from workloads.data import PARTITIONS


class Feed:
    """Writes to a topic from its own thread. rate: messages per second."""

    def __init__(self, brokers: str, topic: str, rate: int) -> None:
        self._producer = Producer({"bootstrap.servers": brokers, "linger.ms": 0, "acks": "1"})
        self._topic, self._rate = topic, rate
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._producer.flush()

    def _run(self) -> None:
        start, sent = time.perf_counter(), 0
        while not self._over.wait(0.002):
            due = int((time.perf_counter() - start) * self._rate)
            for number in range(sent, due):
                message = b'{"k": %d, "ts": %d, "v": 0.9}' % (number, time.time_ns() // 1_000_000)
                self._producer.produce(self._topic, message, None, number % PARTITIONS)
            sent = due
            self._producer.poll(0)
