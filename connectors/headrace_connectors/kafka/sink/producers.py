"""Chooses the producer of a sink: whole batches if the library supports them, else one call per record."""

from __future__ import annotations

from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.librdkafka.native_library import library
from headrace_connectors.kafka.sink.client_producer import ClientProducer
from headrace_connectors.kafka.sink.native_producer import NativeProducer
from headrace_connectors.kafka.sink.records import RecordQueue, TransactionalQueue
from headrace_connectors.kafka.transactions.transaction_settings import transaction_settings


def open_producer(config: KafkaSinkSettings) -> RecordQueue:
    """A producer without transactions. Raises UserError for invalid settings."""
    found = library()
    if found is not None and _takes_batches(config):
        return NativeProducer(found, config.brokers, config.topic, config.properties)
    return ClientProducer(config.brokers, config.topic, config.properties)


def open_transactional_producer(config: KafkaSinkSettings, name: str) -> TransactionalQueue:
    """A producer for one transaction, under this transactional id; not registered yet. Raises UserError as
    `open_producer`."""
    properties, held = transaction_settings(name, config.transaction_timeout_ms, config.properties)
    found = library()
    if found is not None and _takes_batches(config):
        return NativeProducer(found, config.brokers, config.topic, properties, held=held)
    return ClientProducer(config.brokers, config.topic, properties, held=held)


def _takes_batches(config: KafkaSinkSettings) -> bool:
    return not config.headers and config.timestamp == "wall"
