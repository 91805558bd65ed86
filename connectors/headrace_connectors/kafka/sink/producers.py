"""Chooses the producer of a sink (whole batches if the library supports them, else one call per record), and the
at-least-once writer: one producer for its whole life, whose records are all acknowledged at a barrier.

The writer must not know how rows are encoded, nor which producer sends them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import addressof, c_int32, c_void_p
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from headrace.connect.sink import Committable, SinkBatch, SinkContext
from headrace.core.arrow_arrays import mask_of
from headrace.core.errors import ExternalError, HeadraceError
from headrace.kernels.kafka.produce import Deliveries, delivery_counter, produce_kernel
from headrace_connectors.kafka.clients.client import CONNECT_TIMEOUT_S, ClientWatch, base_settings, translated
from headrace_connectors.kafka.config import KafkaSinkSettings, transaction_settings
from headrace_connectors.kafka.librdkafka import functions as librdkafka
from headrace_connectors.kafka.librdkafka.functions import ANY_PARTITION, COPY_PAYLOAD, DELIVERY_CALLBACK, MESSAGE
from headrace_connectors.kafka.librdkafka.native_client import NativeClient
from headrace_connectors.kafka.librdkafka.native_library import library
from headrace_connectors.kafka.sink.client_producer import ClientProducer
from headrace_connectors.kafka.sink.record_sender import AcceptedRecords, RecordSender
from headrace_connectors.kafka.sink.records import (
    HELD_SETTINGS,
    HURRY_MS,
    SETTINGS,
    RecordQueue,
    Records,
    TransactionalQueue,
    delivery_failed,
    rows_allowed,
    undelivered,
)
from headrace_connectors.kafka.transactions.errors import ABORT_TIMEOUT_MS, init_outcome


def open_producer(config: KafkaSinkSettings) -> RecordQueue:
    """A producer without transactions. Raises UserError for invalid settings."""
    native = library()
    if native is not None and _takes_batches(config):
        return NativeProducer(native, config.brokers, config.topic, config.properties)
    return ClientProducer(config.brokers, config.topic, config.properties)


def open_transactional_producer(config: KafkaSinkSettings, name: str) -> TransactionalQueue:
    """A producer for one transaction, under this transactional id; not registered yet. Raises UserError as
    `open_producer`."""
    properties, held = transaction_settings(name, config.transaction_timeout_ms, config.properties)
    native = library()
    if native is not None and _takes_batches(config):
        return NativeProducer(native, config.brokers, config.topic, properties, held=held)
    return ClientProducer(config.brokers, config.topic, properties, held=held)


def _takes_batches(config: KafkaSinkSettings) -> bool:
    return not config.headers and config.timestamp == "wall"


class KafkaWriter:
    """Writes to one topic."""

    def __init__(self, config: KafkaSinkSettings, context: SinkContext) -> None:
        self._queue = open_producer(config)
        self._sender = RecordSender(config, context)
        self._accepted = AcceptedRecords(config, context, self._sender)

    def write(self, batch: SinkBatch) -> None:
        """Queues rows that Kafka does not refuse; blocks while the bounded queue is full."""
        records = self._accepted.of(batch) if len(batch) else None
        if records is not None:
            self._sender.send(self._queue, records)

    def flush(self, epoch: int) -> Sequence[Committable]:
        """Returns when every record is acknowledged; tolerates a broker restart."""
        self._queue.flush()
        return ()

    def close(self) -> None:
        """Discards records that were not flushed."""
        self._queue.close()


# ---- the native producer ---------------------------------------------------------------------------------------------


class NativeProducer:
    """A producer to one topic, on librdkafka's batch call: passes Arrow buffers without a copy in Python, for about
    half the CPU of one call per record. Supports keys and tombstones; `client_producer` sends records with headers or
    event timestamps. Its callbacks run inside its own calls, on the caller's thread.

    As strict as `client_producer`: a delivery report decides whether a record has failed, and the first failure is
    raised. Kernels fill the library's messages and count its reports; where kernels are off, numpy and Python do.

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


class ProduceCalls(Protocol):
    """Queues records of one topic."""

    def produce(self, values: pa.Array, keys: pa.Array | None, partition: int) -> int:
        """Queues records in order: to `partition`, or if it is -1 to the partitions of their keys. Returns 0, or the
        error code of the first record that the library rejects; some of the records after it may be queued.

        values, keys: Arrow large_binary; NULL is a tombstone, or a record without a key
        """
        ...

    def produce_by_key(self, values: pa.Array, keys: pa.Array, partitions: int) -> int:
        """Queues records to the partitions of their keys; records of one partition in order. Otherwise as `produce`.

        partitions: how many the topic has
        """
        ...


def produce_calls(library: ctypes.CDLL, topic: int) -> ProduceCalls:
    """The calls for the topic with this handle."""
    address = ctypes.cast(library.rd_kafka_produce_batch, c_void_p).value or 0
    return produce_kernel(address, topic, COPY_PAYLOAD) or ArrayCalls(library, topic)


class ArrayCalls:
    """One call for all records; numpy fills the messages."""

    def __init__(self, library: ctypes.CDLL, topic: int) -> None:
        self._lib, self._topic = library, topic

    def produce(self, values: pa.Array, keys: pa.Array | None, partition: int) -> int:
        """See ProduceCalls."""
        count = len(values)
        messages = np.zeros(count, MESSAGE)
        messages["payload"], messages["len"] = _pointers(values)
        if keys is not None:
            messages["key"], messages["key_len"] = _pointers(keys)
        place = messages.ctypes.data
        if self._lib.rd_kafka_produce_batch(self._topic, partition, COPY_PAYLOAD, place, count) == count:
            return 0
        codes = messages["err"]
        return int(codes[codes != 0][0])

    def produce_by_key(self, values: pa.Array, keys: pa.Array, partitions: int) -> int:
        """See ProduceCalls. The library knows the number of partitions, and chooses the same ones."""
        return self.produce(values, keys, ANY_PARTITION)


def _pointers(column: pa.Array) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Address and length of each value of a large_binary column; NULL has address 0."""
    assert pa.types.is_large_binary(column.type), f"values are large_binary, not {column.type}"
    count = len(column)
    _, offset_buffer, data = column.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64, count + 1, column.offset * 8)
    base = 0 if data is None else data.address
    # an empty value is not NULL: it needs an address even in a column without data
    starts = offsets[:-1].astype(np.uint64) + np.uint64(base or offset_buffer.address)
    lengths = (offsets[1:] - offsets[:-1]).astype(np.uint64)
    if column.null_count:
        missing = mask_of(column.is_null())
        starts[missing], lengths[missing] = 0, 0
    return starts, lengths


class DeliveryReports:
    """The failures so far. The producer keeps this object until its client is destroyed: the client holds its
    address."""

    def __init__(self) -> None:
        self._deliveries = Deliveries()
        counter = delivery_counter()
        self._callback = DELIVERY_CALLBACK(self._on_report) if counter is None else DELIVERY_CALLBACK(counter)

    @property
    def callbacks(self) -> dict[str, Any]:
        """The settings with which a client reports here, keyed by the function that sets them."""
        return {
            "rd_kafka_conf_set_dr_msg_cb": self._callback,
            "rd_kafka_conf_set_opaque": addressof(self._deliveries),
        }

    def _on_report(self, _handle: int, message: int, _opaque: int) -> None:
        # `err` is the first field of the struct
        code = c_int32.from_address(message).value
        if code:
            if not self._deliveries.failed:
                self._deliveries.first_error = code
            self._deliveries.failed += 1

    def first_error(self) -> KafkaError | None:
        """The error of the first record that failed; later ones are its consequences."""
        return KafkaError(self._deliveries.first_error) if self._deliveries.failed else None
