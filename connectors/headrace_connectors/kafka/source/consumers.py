"""Chooses the consumer of a reader: whole batches where the library and kernels support them, else one object per
record."""

from __future__ import annotations

from headrace_connectors.kafka.librdkafka.native_consumer import NativeConsumer, take_of
from headrace_connectors.kafka.librdkafka.native_library import library
from headrace_connectors.kafka.source.client_consumer import ClientConsumer
from headrace_connectors.kafka.source.fetched import FetchWish, RecordFetcher


def open_fetcher(wish: FetchWish) -> RecordFetcher:
    """A consumer without partitions. Raises UserError for invalid settings."""
    found = library()
    take = None if found is None else take_of(found, wish)
    if found is None or take is None:
        return ClientConsumer(wish)
    return NativeConsumer(found, wish, take)
