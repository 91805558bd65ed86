"""Chooses the consumer of a reader: whole batches if the library supports them, else one object per record."""

from __future__ import annotations

from headrace_connectors.kafka.librdkafka.native_consumer import NativeConsumer
from headrace_connectors.kafka.librdkafka.native_library import library
from headrace_connectors.kafka.source.client_consumer import ClientConsumer
from headrace_connectors.kafka.source.fetched import FetchWish, RecordFetcher


def open_fetcher(wish: FetchWish) -> RecordFetcher:
    """A consumer without partitions. Raises UserError for invalid settings."""
    found = library()
    if found is not None and not wish.wants_headers:
        return NativeConsumer(found, wish)
    return ClientConsumer(wish)
