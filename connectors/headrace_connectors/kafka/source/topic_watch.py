"""Detects that a topic was deleted while it is read: the client reports no error, and returns no more records."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import KafkaException

from headrace.core.errors import UserError
from headrace_connectors.kafka.clients.client import UNKNOWN_TOPIC_CODES
from headrace_connectors.kafka.source.fetched import RecordFetcher

QUIET_S = 5.0
"""Time without records after which a topic is checked."""
GONE_AFTER_S = 10.0
"""A topic that stays unknown for this long is gone; a restarting broker briefly does not know its topics."""
ANSWER_S = 1.0


class TopicWatch:
    """The topics of one reader. Times are seconds of the monotonic clock."""

    def __init__(self, brokers: str) -> None:
        self._brokers = brokers
        self._heard: dict[str, float] = {}
        self._unknown_since: dict[str, float] = {}

    def returned_rows(self, topics: Iterable[str], now: float) -> None:
        """Records that these topics returned rows, or are newly assigned."""
        self._heard |= dict.fromkeys(topics, now)

    def check(self, fetcher: RecordFetcher, now: float) -> None:
        """Checks the topic that has been quiet for longest, one per call: an answer may take up to a second. Raises
        UserError if it is gone."""
        topic = min(self._heard, key=self._heard.__getitem__, default=None)
        if topic is None or now - self._heard[topic] < QUIET_S:
            return
        self._heard[topic] = now
        try:
            error = fetcher.topic_error(topic, ANSWER_S)
        except KafkaException:
            # without a broker a topic's state is unknown, so this time does not count
            self._unknown_since.clear()
            return
        if error is None or error.code() not in UNKNOWN_TOPIC_CODES:
            self._unknown_since.pop(topic, None)
        elif now - self._unknown_since.setdefault(topic, now) >= GONE_AFTER_S:
            raise UserError(
                f"topic {topic!r} at {self._brokers} does not exist any more",
                remedy="it was deleted while the job read it: create it again and restart the job",
            )
