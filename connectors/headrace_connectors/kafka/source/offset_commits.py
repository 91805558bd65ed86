"""Publishes positions to the consumer group: for monitoring and for `start: committed`, never for recovery.

At most one request is in flight; newer positions replace waiting ones. Failures are counted, not raised: checkpoints
hold the authoritative positions.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException

from headrace.connect.source import SplitId
from headrace_connectors.kafka.clients.client import LOG
from headrace_connectors.kafka.source.fetched import RecordFetcher
from headrace_connectors.kafka.source.group_use import REFUSED_CODES


class OffsetCommits:
    """The group offsets of one consumer. Its callback runs inside the consumer's own poll."""

    def __init__(self) -> None:
        self._fetcher: RecordFetcher | None = None
        self._waiting: dict[SplitId, int] = {}
        self._in_flight = False
        self.failures = 0
        self.refused = False
        """Whether a commit has failed because the group has members."""

    def bind(self, fetcher: RecordFetcher) -> None:
        """Sets the consumer to commit with, which was opened with `committed=self.on_commit`."""
        self._fetcher = fetcher

    def request(self, positions: Mapping[SplitId, int]) -> None:
        """Requests these positions to be published. Never blocks."""
        self._waiting.update(positions)
        self._send()

    def on_commit(self, error: KafkaError | None) -> None:
        """The consumer's `committed`: the error of the commit or of one of its partitions."""
        self._in_flight = False
        if error is not None:
            self.failures += 1
            self.refused = self.refused or error.code() in REFUSED_CODES
            LOG.info("group offsets were not committed: %s", error)
        self._send()

    def settle(self, timeout_s: float) -> None:
        """Waits until no request is in flight or the time is up; records that arrive meanwhile are lost."""
        assert self._fetcher is not None
        deadline = time.monotonic() + timeout_s
        while self._in_flight and time.monotonic() < deadline:
            self._fetcher.fetch(1, 0.05)

    def _send(self) -> None:
        if self._in_flight or not self._waiting or self._fetcher is None:
            return
        positions, self._waiting = self._waiting, {}
        try:
            self._fetcher.commit(positions)
            self._in_flight = True
        except KafkaException as error:
            self.failures += 1
            LOG.info("group offsets were not committed: %s", error)
