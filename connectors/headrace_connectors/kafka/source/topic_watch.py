"""Watches the topics of a reader: they are those that its splits were resolved in, and they still exist.

identity    checked before the first row and while rows are read, by requests that any broker answers. They are sent in
            another thread; only a barrier waits for an answer
existence   checked while a topic is quiet. The client reports no error for a deleted topic, and returns no more records
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, wait

from confluent_kafka import KafkaException

from headrace.connect.restored import replaced
from headrace.connect.source import Split
from headrace.core.errors import ExternalError, UserError
from headrace_connectors.kafka.clients.client import LOG, UNKNOWN_TOPIC_CODES
from headrace_connectors.kafka.clients.log_identity import replaced_topics
from headrace_connectors.kafka.requests.topic_logs import TopicLogRequests
from headrace_connectors.kafka.source.fetched import RecordFetcher

INTERVAL_S = 5.0
"""Time between two checks of a source that is being read, in s."""
CONFIRM_S = 1.0
"""Time limit of the check at a barrier, in s: without a broker the epoch goes on unconfirmed."""
QUIET_S = 5.0
"""Time without records after which a topic is checked."""
GONE_AFTER_S = 10.0
"""A topic that stays unknown for this long is gone; a restarting broker briefly does not know its topics."""
ANSWER_S = 1.0
AGAIN_S = 0.1
"""Pause after a request without an answer, before the first row, in s."""


class IdentityWatch:
    """Detects that a topic was created again. Times are seconds of the monotonic clock."""

    def __init__(self, source: str, brokers: str, properties: Mapping[str, str]) -> None:
        self._source = source
        self._brokers = brokers
        self._requests = TopicLogRequests(brokers, properties)
        self._known: dict[str, Split] = {}
        self._unverified = False
        self._request: Future[dict[str, str]] | None = None
        self._due = 0.0

    def add(self, splits: Sequence[Split]) -> None:
        """Adds splits; the source is not verified until their topics are."""
        fresh = {split.id.topic: split for split in splits if split.identity and split.id.topic not in self._known}
        if fresh:
            self._known |= fresh
            self._unverified = True
            self._request = None
            self._due = 0.0

    def verified(self, deadline: float) -> bool:
        """Whether rows may be returned. Waits for the first answer until `deadline`. Raises UserError if a topic is
        another one, ExternalError if the login is refused."""
        self._look()
        while self._unverified and (now := time.monotonic()) < deadline:
            if self._request is None:
                time.sleep(max(0.0, min(self._due, deadline) - now))
            else:
                wait([self._request], timeout=deadline - now)
            self._look()
        return not self._unverified

    def require_same(self) -> None:
        """Asks now, and waits for the answer, up to `CONFIRM_S`. Raises UserError if a topic is another one.

        Topic ids never come again: if the topics are the same now, all rows that were read before are theirs.
        """
        if not self._known:
            return
        # a request that is in flight may have been answered before the newest rows were read
        request = self._ask(time.monotonic())
        wait([request], timeout=CONFIRM_S)
        if request.done():
            self._take(request)

    def close(self) -> None:
        """Ends the requests. Idempotent."""
        self._requests.close()

    def _look(self) -> None:
        if not self._known:
            return
        now = time.monotonic()
        if self._request is None:
            if now >= self._due:
                self._ask(now)
        elif self._request.done():
            self._take(self._request)

    def _ask(self, now: float) -> Future[dict[str, str]]:
        self._request = self._requests.ask(self._known)
        self._due = now + INTERVAL_S
        return self._request

    def _take(self, request: Future[dict[str, str]]) -> None:
        self._request = None
        try:
            now = request.result()
        except ExternalError as error:
            if self._unverified and not error.retry:
                raise
            # without a broker nothing is known, and the consumer returns nothing either
            LOG.info("%s: identities of topics are not known: %s", self._source, error)
            self._due = time.monotonic() + AGAIN_S if self._unverified else self._due
            return
        if others := replaced_topics(list(self._known.values()), now, self._brokers):
            raise replaced(self._source, others)
        self._unverified = False


class TopicWatch:
    """Detects that a topic was deleted. Times are seconds of the monotonic clock."""

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
