"""Publishes positions to the consumer group: for monitoring and for `start: committed`, never for recovery.

At most one request is in flight; newer positions replace waiting ones. Failures are counted, not raised: checkpoints
hold the authoritative positions.

A group with members takes offsets from its members only. A source is none: it assigns its partitions itself. Its
positions are then not published, and only a warning shows it (`GroupUse`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from headrace.connect.source import SplitId
from headrace_connectors.kafka.clients.client import LOG, ClientWatch, open_admin
from headrace_connectors.kafka.source.fetched import RecordFetcher

ANSWER_S = 10.0
"""Time limit of the request for the group, in s."""
REFUSED_CODES = frozenset(
    {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS}
)
"""Errors of a commit to a group that has members."""


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


class GroupUse:
    """Asks for the group once, without waiting, and remarks on its members at most once."""

    def __init__(self, group: str, brokers: str, properties: Mapping[str, str]) -> None:
        self._group = group
        self._brokers = brokers
        self._properties = properties
        # the client lives until the answer is there
        self._pending: tuple[AdminClient, Future[Any]] | None = None
        self._asked = self._remarked = False

    def ask(self) -> None:
        """Sends the request, unless it was sent."""
        if not self._asked:
            self._asked = True
            admin = open_admin(self._brokers, self._properties, ClientWatch(self._brokers))
            asked = admin.describe_consumer_groups([self._group], request_timeout=ANSWER_S)
            self._pending = (admin, asked[self._group])

    def remarks(self, *, refused: bool) -> tuple[str, ...]:
        """A remark for users on the group. refused: whether a commit has failed because it has members."""
        if self._remarked or not (refused or self._has_members()):
            return ()
        self._remarked = True
        return (
            f"another consumer uses group {self._group}, so Kafka refuses the offsets of this job there: monitoring "
            "and `start: committed` do not see its positions. Give it a `group:` of its own",
        )

    def _has_members(self) -> bool:
        if self._pending is None or not self._pending[1].done():
            return False
        (_, answer), self._pending = self._pending, None
        try:
            return bool(answer.result().members)
        except KafkaException as error:
            # a group that does not exist, or may not be described: a commit tells
            LOG.info("group %s is not described: %s", self._group, error)
            return False
