"""A reader of an output topic that records when it first received each row."""

from __future__ import annotations

import json
import threading
import time
from typing import Self

from confluent_kafka import Consumer, TopicPartition
from workloads.data import PARTITIONS


class OutputReader:
    """Reads from the beginning, in its own thread, until the context ends.

    seen_ms   `k` of a row -> when it was first received (epoch ms)
    at_ms     the times at which any records were received
    """

    def __init__(self, brokers: str, topic: str, isolation: str) -> None:
        self.seen_ms: dict[int, float] = {}
        self.at_ms: list[float] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": brokers,
                "group.id": "bench",
                "isolation.level": isolation,
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._consumer.close()

    def first_after(self, when_ms: float) -> float | None:
        """The time of the first record received after `when_ms`; None: no record yet."""
        return next((at_ms for at_ms in self.at_ms if at_ms > when_ms), None)

    def _run(self) -> None:
        while not self._over.is_set():
            # whatever is there is taken at once: asking for more than one would wait for them
            message = self._consumer.poll(0.05)
            now_ms = time.time() * 1000
            if message is None or message.error():
                continue
            self.at_ms.append(now_ms)
            self.seen_ms.setdefault(json.loads(message.value() or b"")["k"], now_ms)
