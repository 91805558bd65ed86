"""The record queue on confluent-kafka's own producer: one call per record; supports timestamps and headers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from types import MappingProxyType
from typing import Any

import polars as pl
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from headrace.core.errors import HeadraceError
from headrace_connectors.kafka.clients.client import (
    CONNECT_TIMEOUT_S,
    ClientWatch,
    bad_settings,
    base_settings,
    translated,
)
from headrace_connectors.kafka.librdkafka.functions import ANY_PARTITION
from headrace_connectors.kafka.sink.records import (
    HELD_SETTINGS,
    HURRY_MS,
    SETTINGS,
    Records,
    delivery_failed,
    rows_allowed,
    undelivered,
)
from headrace_connectors.kafka.transactions.errors import ABORT_TIMEOUT_MS, init_outcome


class ClientProducer:
    """A producer to one topic.

    held   settings that `properties` may not override; with a transactional.id the producer serves one transaction
    """

    def __init__(
        self,
        brokers: str,
        topic: str,
        properties: Mapping[str, str],
        *,
        held: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._brokers, self._topic = brokers, topic
        self._watch = ClientWatch(brokers)
        self._failed: KafkaError | None = None
        settings = SETTINGS | base_settings(brokers, properties, self._watch) | HELD_SETTINGS | dict(held)
        try:
            self._producer = Producer(settings | {"on_delivery": self._on_delivery})
        except KafkaException as cause:
            raise bad_settings(cause) from cause
        self._in_transaction = False
        # the client's length has log lines and errors too
        self._is_flushed = True
        self._closed = False

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        # only failures are reported; the first one has the cause
        if error is not None and self._failed is None:
            self._failed = error

    def _serve(self, timeout_s: float) -> None:
        """Runs callbacks. The client itself raises its fatal errors."""
        self._raise_if_fatal(self._outcome(lambda: self._producer.poll(timeout_s)))

    def _flushed(self, timeout_s: float) -> bool:
        """Whether the queue is empty; otherwise as `_serve`."""
        self._raise_if_fatal(self._outcome(lambda: self._producer.flush(timeout_s)))
        return not len(self._producer)

    def _raise_if_fatal(self, error: KafkaError | None) -> None:
        if error is not None:
            self._raise_if_doomed()
            raise delivery_failed(error, self._topic, self._brokers)

    def _raise_if_failed(self) -> None:
        if self._failed is not None:
            raise delivery_failed(self._failed, self._topic, self._brokers)
        self._watch.raise_if_hopeless()

    def send(self, records: Records, partition: int) -> None:
        """Queues records; see RecordQueue."""
        self._is_flushed = False
        count = len(records)
        allowed = rows_allowed(records)
        self._serve(0)
        self._raise_if_failed()
        while (queued := len(self._producer)) and queued + count > allowed:
            self._serve(0.01)
            self._raise_if_failed()
        values = _as_list(records.values)
        keys = repeat(None) if records.keys is None else _as_list(records.keys)
        columns: list[Iterable[object]] = [repeat(self._topic), values, keys, repeat(partition)]
        if records.timestamps is not None or records.headers is not None:
            stamps = repeat(0) if records.timestamps is None else records.timestamps
            columns += [repeat(None), repeat(None), stamps]
            if records.headers is not None:
                columns.append(records.headers)
        try:
            deque(map(self._producer.produce, *columns), maxlen=0)
        except KafkaException as cause:
            # in a failed transaction every record is rejected: the cause is the first failure
            self._serve(0)
            self._raise_if_failed()
            self._raise_if_doomed()
            raise delivery_failed(cause.args[0], self._topic, self._brokers) from cause

    def send_by_key(self, records: Records, partitions: int) -> None:
        """Queues records; see RecordQueue. The client knows how many partitions there are."""
        self.send(records, ANY_PARTITION)

    def hurry(self) -> None:
        """Sends the queue now: during a flush the client does not linger."""
        self._flushed(HURRY_MS / 1000)

    def flush(self) -> None:
        """Waits for every record; each one is acknowledged, or fails after message.timeout.ms."""
        while not self._flushed(0.5):
            self._raise_if_failed()
            self._raise_if_doomed()
        self._raise_if_failed()
        self._raise_if_doomed()
        self._is_flushed = True

    def partitions(self) -> int:
        """The current number of partitions of the topic."""
        try:
            listing = self._producer.list_topics(self._topic, timeout=CONNECT_TIMEOUT_S)
        except KafkaException as cause:
            self._watch.raise_if_hopeless()
            raise self._watch.unreachable() from cause
        topic = listing.topics[self._topic]
        if topic.error is not None:
            raise delivery_failed(topic.error, self._topic, self._brokers)
        return len(topic.partitions)

    def init_transactions(self, timeout_s: float) -> HeadraceError | None:
        """Registers the transactional id; see TransactionalQueue."""
        error = self._outcome(lambda: self._producer.init_transactions(timeout_s))
        self._serve(0)
        return init_outcome(error, self._brokers, self._watch)

    def begin_transaction(self) -> None:
        """See TransactionalQueue."""
        error = self._outcome(self._producer.begin_transaction)
        if error is not None:
            raise translated(error, self._brokers)
        self._in_transaction = True

    def _raise_if_doomed(self) -> None:
        """Calls begin a second time, which is rejected and changes nothing: the error names the transaction's failure,
        if any."""
        if self._in_transaction:
            error = self._outcome(self._producer.begin_transaction)
            assert error is not None, "a transaction is open already"
            if error.code() != KafkaError._STATE:
                raise delivery_failed(error, self._topic, self._brokers)

    def _outcome(self, call: Callable[[], object]) -> KafkaError | None:
        try:
            call()
        except KafkaException as cause:
            return _error_of(cause)
        except SystemError as cause:
            # the client raises fatal errors amid its callbacks; the next callback fails on that exception, or loses it
            lost = cause.__cause__
            found = _error_of(lost) if isinstance(lost, KafkaException) else self._failed
            return found or KafkaError(KafkaError._FATAL, "the client failed without a reason", True)  # noqa: FBT003
        return None

    def drop(self) -> None:
        """Releases the client only: see TransactionalQueue."""
        if not self._is_flushed:
            raise undelivered(self._topic)
        self._release()

    def _release(self) -> None:
        # the last reference: the client is freed, sends nothing, and an open transaction stays open
        self._closed = True
        del self._producer

    def close(self) -> None:
        """Discards the queue, and aborts an open transaction."""
        if self._closed:
            return
        self._outcome(lambda: self._producer.purge(in_queue=True, in_flight=True, blocking=False))
        self._outcome(lambda: self._producer.flush(0.2))
        if self._in_transaction:
            self._outcome(lambda: self._producer.abort_transaction(ABORT_TIMEOUT_MS / 1000))
        self._release()


def _error_of(cause: KafkaException) -> KafkaError:
    error = cause.args[0]
    assert isinstance(error, KafkaError)
    return error


def _as_list(column: object) -> list[bytes | None]:
    series = pl.from_arrow(column)
    assert isinstance(series, pl.Series)
    return series.to_list()
