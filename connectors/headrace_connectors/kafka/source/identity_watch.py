"""Verifies that the topics of a reader are those that its splits were resolved in, before its first row and while it
reads. The requests are the client's own, and their answers are looked at between polls; only a barrier waits for one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headrace.connect.restored import replaced
from headrace.connect.source import Split
from headrace.core.errors import UnreachableError
from headrace_connectors.kafka.clients.client import LOG, ClientWatch, open_admin
from headrace_connectors.kafka.clients.log_identity import IdentityRequest, replaced_topics

INTERVAL_S = 5.0
"""Time between two checks of a source that is being read, in s."""
CONFIRM_S = 1.0
"""Time limit of the check at a barrier, in s: without a broker the epoch goes on unconfirmed."""
_LOOK_S = 0.02
_CONFIRM_LOOK_S = 0.001


class IdentityWatch:
    """The identities of one reader's topics. Times are seconds of the monotonic clock."""

    def __init__(self, source: str, brokers: str, properties: Mapping[str, str]) -> None:
        self._source = source
        self._brokers = brokers
        self._properties = properties
        self._watch = ClientWatch(brokers)
        self._admin: AdminClient | None = None
        self._known: dict[str, Split] = {}
        self._unverified = False
        self._request: IdentityRequest | None = None
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
        another one."""
        self._look()
        while self._unverified and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
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
        deadline = time.monotonic() + CONFIRM_S
        while not request.done() and time.monotonic() < deadline:
            time.sleep(_CONFIRM_LOOK_S)
        if request.done():
            self._take(request)

    def _look(self) -> None:
        if not self._known:
            return
        if self._unverified and self._admin is not None:
            # until rows may be returned, nobody polls the consumer, whose callbacks report a refused login
            self._admin.poll(0)
            self._watch.raise_if_hopeless()
        now = time.monotonic()
        if self._request is None:
            if now >= self._due:
                self._ask(now)
        elif self._request.done():
            self._take(self._request)

    def _ask(self, now: float) -> IdentityRequest:
        if self._admin is None:
            self._admin = open_admin(self._brokers, self._properties, self._watch)
        self._request = IdentityRequest(self._admin, self._known)
        self._due = now + INTERVAL_S
        return self._request

    def _take(self, request: IdentityRequest) -> None:
        self._request = None
        try:
            now = request.identities(self._watch)
        except (KafkaException, UnreachableError) as error:
            # without a broker nothing is known, and the consumer returns nothing either
            LOG.info("%s: identities of topics are not known: %s", self._source, error)
            self._due = 0.0 if self._unverified else self._due
            # librdkafka asks the controller alone: another client learns which broker that is now
            self._admin = None
            return
        if others := replaced_topics(list(self._known.values()), now, self._brokers):
            raise replaced(self._source, others)
        self._unverified = False
