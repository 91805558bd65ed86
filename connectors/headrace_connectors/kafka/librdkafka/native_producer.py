"""The record queue on librdkafka's batch call: Arrow buffers go over as they are, at about half the CPU of one call a
record. Takes keys and tombstones; records with headers or timestamps of their own go through `client_producer`.

Equally strict: a record has failed when its delivery report says so, and the first failure is kept.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from headrace.core.errors import ExternalError, HeadraceError, InternalError
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
)
from headrace_connectors.kafka.transactions.errors import ABORT_TIMEOUT_MS, init_outcome


class NativeProducer:
    """A producer to one topic. Its callbacks run inside its own calls, on the caller's thread.

    held   settings that `properties` may not change; with a transactional.id it is a producer for one transaction
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
        assert records.keys is not None, "records go by their keys"
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
            # in a transaction that has failed, every record is refused: the reason is the first failure's
            self._lib.rd_kafka_poll(self._handle, 0)
            self._raise_if_failed()
            self._raise_if_doomed()
            raise delivery_failed(KafkaError(code), self._topic, self._brokers)

    def hurry(self) -> None:
        """Sends what is queued: while a flush is under way, the library does not linger."""
        self._lib.rd_kafka_flush(self._handle, HURRY_MS)

    def flush(self) -> None:
        """Waits for every record; each one is either acknowledged or failed after message.timeout.ms."""
        while self._lib.rd_kafka_outq_len(self._handle):
            self._lib.rd_kafka_flush(self._handle, 500)
            self._raise_if_failed()
            self._raise_if_doomed()
        self._raise_if_failed()
        self._raise_if_doomed()
        self._is_flushed = True

    def partitions(self) -> int:
        """How many partitions the topic has now."""
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
        """Registers the name; see TransactionalQueue."""
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
        """A second begin is refused and changes nothing; the refusal names the transaction's failure, if it has one."""
        if self._in_transaction:
            error = self._opened.outcome(self._lib.rd_kafka_begin_transaction(self._handle))
            assert error is not None, "a transaction is open already"
            if error.code() != KafkaError._STATE:
                raise delivery_failed(error, self._topic, self._brokers)

    def drop(self) -> None:
        """Releases the client alone: see TransactionalQueue."""
        if not self._is_flushed:
            raise InternalError(f"a producer to topic {self._topic!r} is dropped before its records are delivered")
        handle, self._handle = self._handle, None
        self._destroy(handle)

    def _destroy(self, handle: int | None) -> None:
        # the library's own end: it sends nothing, and what is open stays open
        self._lib.rd_kafka_topic_destroy(self._topic_handle)
        self._lib.rd_kafka_destroy(handle)

    def close(self) -> None:
        """Drops what is queued, and aborts a transaction that is open."""
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        flags = librdkafka.PURGE_QUEUED | librdkafka.PURGE_IN_FLIGHT | librdkafka.PURGE_NON_BLOCKING
        self._lib.rd_kafka_purge(handle, flags)
        self._lib.rd_kafka_flush(handle, 200)
        if self._in_transaction:
            self._opened.outcome(self._lib.rd_kafka_abort_transaction(handle, ABORT_TIMEOUT_MS))
        self._destroy(handle)
