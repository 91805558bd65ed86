"""Requests for the identity of topics: cluster id and topic id, by which a log is told apart from another of its name.

Any broker answers, also while the controller is down. Where brokers name no ids (before 3.0), and with connection
settings that only librdkafka supports, topics have no identity and are not checked.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from concurrent.futures import Future

from headrace.core.errors import ExternalError, UserError
from headrace.core.retry import Backoff, Retries
from headrace_connectors.kafka.clients.client import LOG
from headrace_connectors.kafka.clients.client_security import client_security
from headrace_connectors.kafka.requests.client import NETWORK_EXCEPTION, BrokerClient, connection_settings_of
from headrace_connectors.kafka.requests.connection import ConnectionSettings
from headrace_connectors.kafka.requests.requests import TopicLog

ANSWER_TIMEOUT_MS = 4_000
PATIENCE_S = 8.0
"""Time limit of the retries of one call: most broker restarts take less."""
_BACKOFF = Backoff(first_s=0.005, max_s=0.25)


class TopicLogs:
    """One connection at a time, opened by the first call. Used by one thread."""

    def __init__(self, brokers: str, properties: Mapping[str, str], *, patience_s: float = PATIENCE_S) -> None:
        self._brokers = brokers
        self._settings = _settings(properties)
        self._patience_s = patience_s
        self._client: BrokerClient | None = None

    def of(self, topics: Collection[str]) -> dict[str, str]:
        """Topic -> identity, without topics that have none: they do not exist or may not be described. Raises
        ExternalError, with `retry` if no broker answers within `patience_s`."""
        if self._settings is None or not topics:
            return {}
        retries = Retries(_BACKOFF, self._patience_s)
        while True:
            try:
                found = self._connected(self._settings).logs_of(sorted(topics))
            except ExternalError as error:
                retries.pause_or_raise(error)
                continue
            except UserError:
                # a broker without the request
                return {}
            if NETWORK_EXCEPTION not in {each.code for each in found.values()}:
                return {topic: name for topic, log in found.items() if (name := identity(log))}
            retries.pause_or_raise(no_answer(self._brokers, topics, self._last_failure()))

    def close(self) -> None:
        """Closes the connection. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self, settings: ConnectionSettings) -> BrokerClient:
        if self._client is not None and self._client.broken:
            self.close()
        if self._client is None:
            self._client = BrokerClient(self._brokers, settings, answer_timeout_ms=ANSWER_TIMEOUT_MS)
        return self._client

    def _last_failure(self) -> str:
        return "" if self._client is None else self._client.last_failure()


class TopicLogRequests:
    """Sends requests of `TopicLogs` in a thread of its own. At most one is under way, and one waits."""

    def __init__(self, brokers: str, properties: Mapping[str, str]) -> None:
        # its caller repeats a request
        self._logs = TopicLogs(brokers, properties, patience_s=0.0)
        self._changed = threading.Condition()
        self._waiting: tuple[frozenset[str], Future[dict[str, str]]] | None = None
        self._has_thread = False
        self._closed = False

    def ask(self, topics: Collection[str]) -> Future[dict[str, str]]:
        """The answer to a request that is sent after this call (`TopicLogs.of`)."""
        with self._changed:
            wanted = frozenset(topics)
            if self._waiting is None or self._waiting[0] != wanted:
                self._waiting = wanted, Future()
            if not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._run, name="headrace-topic-logs", daemon=True).start()
            self._changed.notify()
            return self._waiting[1]

    def close(self) -> None:
        """Ends the thread after its request. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        try:
            while (waiting := self._next()) is not None:
                topics, future = waiting
                try:
                    future.set_result(self._logs.of(topics))
                except Exception as error:
                    future.set_exception(error)
        finally:
            self._logs.close()

    def _next(self) -> tuple[frozenset[str], Future[dict[str, str]]] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._waiting is not None)
            waiting, self._waiting = self._waiting, None
            return None if self._closed else waiting


def identity(log: TopicLog) -> str:
    """The text of a log's identity; empty if it has none."""
    return f"{log.cluster}/{log.topic_id}" if log.cluster and log.topic_id else ""


def no_answer(brokers: str, topics: Collection[str], detail: str) -> ExternalError:
    """The error for brokers that do not answer about topics."""
    return ExternalError(
        f"Kafka at {brokers} does not answer about topic {min(topics)!r}: {detail}",
        remedy="the request is repeated; check the brokers",
        retry=True,
    )


def _settings(properties: Mapping[str, str]) -> ConnectionSettings | None:
    try:
        return connection_settings_of(client_security(properties))
    except UserError as error:
        LOG.warning("topics are not checked for being the same ones: %s", error)
        return None
