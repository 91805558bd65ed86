"""Chooses the producer of a sink (whole batches if the library supports them, else one call per record), and the
at-least-once writer: one producer for its whole life, whose records are all acknowledged at a barrier.

The writer must not know how rows are encoded, nor which producer sends them.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.connect.sink import Committable, SinkBatch, SinkContext
from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.librdkafka.native_library import library
from headrace_connectors.kafka.sink.client_producer import ClientProducer
from headrace_connectors.kafka.sink.native_producer import NativeProducer
from headrace_connectors.kafka.sink.record_sender import AcceptedRecords, RecordSender
from headrace_connectors.kafka.sink.records import RecordQueue, TransactionalQueue
from headrace_connectors.kafka.transactions.transaction_settings import transaction_settings


def open_producer(config: KafkaSinkSettings) -> RecordQueue:
    """A producer without transactions. Raises UserError for invalid settings."""
    librdkafka = library()
    if librdkafka is not None and _takes_batches(config):
        return NativeProducer(librdkafka, config.brokers, config.topic, config.properties)
    return ClientProducer(config.brokers, config.topic, config.properties)


def open_transactional_producer(config: KafkaSinkSettings, name: str) -> TransactionalQueue:
    """A producer for one transaction, under this transactional id; not registered yet. Raises UserError as
    `open_producer`."""
    properties, held = transaction_settings(name, config.transaction_timeout_ms, config.properties)
    librdkafka = library()
    if librdkafka is not None and _takes_batches(config):
        return NativeProducer(librdkafka, config.brokers, config.topic, properties, held=held)
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
