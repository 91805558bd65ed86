"""The record queue on librdkafka's batch call: passes Arrow buffers without a copy in Python, for about half the CPU of
one call per record. Supports keys and tombstones; `client_producer` sends records with headers or event timestamps.

As strict as `client_producer`: a delivery report decides whether a record has failed, and the first failure is raised.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from headrace.core.errors import ExternalError, HeadraceError
from headrace_connectors.kafka.clients.client import CONNECT_TIMEOUT_S, ClientWatch, base_settings, translated
from headrace_connectors.kafka.librdkafka import functions as librdkafka
from headrace_connectors.kafka.librdkafka.delivery_reports import DeliveryReports
from headrace_connectors.kafka.librdkafka.native_client import NativeClient
from headrace_connectors.kafka.librdkafka.produce_calls import produce_calls
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


class NativeProducer:
    """A producer to one topic. Its callbacks run inside its own calls, on the caller's thread.

    held   settings that `properties` may not override; with a transactional.id the producer serves one transaction
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        brokers: str,
        topic: str,
        properties: Mapping[str, str],
        *,
        held: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._lib = library
        self._brokers, self._topic = brokers, topic
        self._watch = ClientWatch(brokers)
        self._in_transaction = False
        # the library's count of its queue has log lines and errors too
        self._is_flushed = True
        # kept here: the library holds bare pointers into it
        self._reports = DeliveryReports()
        settings = SETTINGS | base_settings(brokers, properties, self._watch) | HELD_SETTINGS | dict(held)
        self._opened = NativeClient(
            library,
            librdkafka.PRODUCER,
            settings,
            self._watch,
            callbacks=self._reports.callbacks,
        )
        self._handle: int | None = self._opened.handle
        self._topic_handle = library.rd_kafka_topic_new(self._handle, topic.encode(), None)
        if not self._topic_handle:
            library.rd_kafka_destroy(self._handle)
            raise ExternalError(f"librdkafka opens no handle for topic {topic!r}")
        self._calls = produce_calls(library, self._topic_handle)

    def _raise_if_failed(self) -> None:
        error = self._reports.first_error()
        if error is not None:
            raise delivery_failed(error, self._topic, self._brokers)
        self._watch.raise_if_hopeless()

    def send(self, records: Records, partition: int) -> None:
        """Queues records; see RecordQueue."""
        self._wait_for_room(records)
        self._require_queued(self._calls.produce(records.values, records.keys, partition))

    def send_by_key(self, records: Records, partitions: int) -> None:
        """Queues records; see RecordQueue."""
        self._wait_for_room(records)
        assert records.keys is not None, "records without keys go to a partition of the caller's choice"
        if partitions:
            code = self._calls.produce_by_key(records.values, records.keys, partitions)
        else:
            code = self._calls.produce(records.values, records.keys, librdkafka.ANY_PARTITION)
        self._require_queued(code)

    def _wait_for_room(self, records: Records) -> None:
        assert records.headers is None, "headers need a call for each record"
        assert records.timestamps is None, "timestamps need a call for each record"
        self._is_flushed = False
        lib, handle, count = self._lib, self._handle, len(records)
        allowed = rows_allowed(records)
        lib.rd_kafka_poll(handle, 0)
        self._raise_if_failed()
        while (queued := lib.rd_kafka_outq_len(handle)) and queued + count > allowed:
            lib.rd_kafka_poll(handle, 10)
            self._raise_if_failed()

    def _require_queued(self, code: int) -> None:
        if code:
            # in a failed transaction every record is rejected: the cause is the first failure
            self._lib.rd_kafka_poll(self._handle, 0)
            self._raise_if_failed()
            self._raise_if_doomed()
            raise delivery_failed(KafkaError(code), self._topic, self._brokers)

    def hurry(self) -> None:
        """Sends the queue now: during a flush the library does not linger."""
        self._lib.rd_kafka_flush(self._handle, HURRY_MS)

    def flush(self) -> None:
        """Waits for every record; each one is acknowledged, or fails after message.timeout.ms."""
        while self._lib.rd_kafka_outq_len(self._handle):
            self._lib.rd_kafka_flush(self._handle, 500)
            self._raise_if_failed()
            self._raise_if_doomed()
        self._raise_if_failed()
        self._raise_if_doomed()
        self._is_flushed = True

    def partitions(self) -> int:
        """The current number of partitions of the topic."""
        try:
            error, count = self._opened.described(self._topic_handle, CONNECT_TIMEOUT_S)
        except KafkaException as cause:
            self._lib.rd_kafka_poll(self._handle, 0)
            self._watch.raise_if_hopeless()
            raise self._watch.unreachable() from cause
        if error is not None:
            raise delivery_failed(error, self._topic, self._brokers)
        return count

    def init_transactions(self, timeout_s: float) -> HeadraceError | None:
        """Registers the transactional id; see TransactionalQueue."""
        error = self._opened.outcome(self._lib.rd_kafka_init_transactions(self._handle, int(timeout_s * 1000)))
        self._lib.rd_kafka_poll(self._handle, 0)
        return init_outcome(error, self._brokers, self._watch)

    def begin_transaction(self) -> None:
        """See TransactionalQueue."""
        error = self._opened.outcome(self._lib.rd_kafka_begin_transaction(self._handle))
        if error is not None:
            raise translated(error, self._brokers)
        self._in_transaction = True

    def _raise_if_doomed(self) -> None:
        """Calls begin a second time, which is rejected and changes nothing: the error names the transaction's failure,
        if any."""
        if self._in_transaction:
            error = self._opened.outcome(self._lib.rd_kafka_begin_transaction(self._handle))
            assert error is not None, "a transaction is open already"
            if error.code() != KafkaError._STATE:
                raise delivery_failed(error, self._topic, self._brokers)

    def drop(self) -> None:
        """Releases the client alone: see TransactionalQueue."""
        if not self._is_flushed:
            raise undelivered(self._topic)
        handle, self._handle = self._handle, None
        self._destroy(handle)

    def _destroy(self, handle: int | None) -> None:
        # destroying a client sends nothing, and an open transaction stays open
        self._lib.rd_kafka_topic_destroy(self._topic_handle)
        self._lib.rd_kafka_destroy(handle)

    def close(self) -> None:
        """Discards the queue, and aborts an open transaction."""
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        flags = librdkafka.PURGE_QUEUED | librdkafka.PURGE_IN_FLIGHT | librdkafka.PURGE_NON_BLOCKING
        self._lib.rd_kafka_purge(handle, flags)
        self._lib.rd_kafka_flush(handle, 200)
        if self._in_transaction:
            self._opened.outcome(self._lib.rd_kafka_abort_transaction(handle, ABORT_TIMEOUT_MS))
        self._destroy(handle)
