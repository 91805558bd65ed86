"""Publishes positions to the consumer group: for people and for `start: committed`, never for recovery.

One request is under way at most; what comes meanwhile replaces what waits. Failures are counted, not raised: the
truth about positions is in checkpoints.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from headrace.connect.source import SplitId
from headrace_connectors.kafka.client import LOG


class OffsetCommits:
    """The group offsets of one consumer. Its callback runs inside the consumer's own poll."""

    def __init__(self) -> None:
        self._consumer: Consumer | None = None
        self._waiting: dict[SplitId, int] = {}
        self._in_flight = False
        self.failures = 0

    def bind(self, consumer: Consumer) -> None:
        """The consumer to commit with; it was made with `on_commit=self.on_commit`."""
        self._consumer = consumer

    def request(self, positions: Mapping[SplitId, int]) -> None:
        """Asks for these positions to be published soon. Never blocks."""
        self._waiting.update(positions)
        self._send()

    def on_commit(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        """The client's `on_commit`."""
        self._in_flight = False
        failed = error is not None or any(item.error is not None for item in partitions)
        if failed:
            self.failures += 1
            LOG.info("group offsets were not committed: %s", error or [item.error for item in partitions])
        self._send()

    def settle(self, timeout_s: float) -> None:
        """Waits until nothing is under way or the time is up; messages that come in the wait are lost."""
        assert self._consumer is not None
        deadline = time.monotonic() + timeout_s
        while self._in_flight and time.monotonic() < deadline:
            self._consumer.consume(1, 0.05)

    def _send(self) -> None:
        if self._in_flight or not self._waiting or self._consumer is None:
            return
        offsets = [TopicPartition(split.topic, split.partition, at) for split, at in self._waiting.items()]
        self._waiting.clear()
        try:
            self._consumer.commit(offsets=offsets, asynchronous=True)
            self._in_flight = True
        except KafkaException as error:
            self.failures += 1
            LOG.info("group offsets were not committed: %s", error)
