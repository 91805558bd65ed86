"""Finds out whether other consumers use the group that a source publishes its positions to.

A group with members takes offsets from its members only. A source is none: it assigns its partitions itself. So its
positions are not published, which nothing but a warning tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from headrace_connectors.kafka.clients.client import LOG, ClientWatch, open_admin

ANSWER_S = 10.0
"""Time limit of the request for the group, in s."""
REFUSED_CODES = frozenset(
    {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS}
)
"""Errors of a commit to a group that has members."""


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
        """What users should know of the group. refused: whether a commit has failed because it has members."""
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
