"""The record fetcher on confluent-kafka's own consumer: one Python object per record; supports headers."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np
import polars as pl
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.connect.source import SplitId
from headrace_connectors.kafka.clients.client import bad_settings
from headrace_connectors.kafka.source.fetched import NOTHING, Columns, Fetched, FetchEvent, FetchWish
from headrace_connectors.kafka.source.runs import pieces

_error_of: Callable[[Message], KafkaError | None] = Message.error
_value_of: Callable[[Message], bytes | None] = Message.value
_key_of: Callable[[Message], bytes | None] = Message.key
_timestamp_of: Callable[[Message], tuple[int, int]] = Message.timestamp
_headers_of = cast("Callable[[Message], list[tuple[str, bytes | None]] | None]", Message.headers)

_HEADERS = pl.List(pl.Struct({"key": pl.String, "value": pl.Binary}))


class ClientConsumer:
    """See RecordFetcher. Raises UserError for invalid settings."""

    chunk_rows = 2_000
    """1,000 to 5,000 cost the same; fewer contend for locks, more miss the processor's caches."""

    def __init__(self, wish: FetchWish) -> None:
        self._wish = wish
        self._assigned: dict[SplitId, None] = {}
        try:
            self._consumer = Consumer(dict(wish.settings) | {"on_commit": self._on_commit})
        except KafkaException as cause:
            raise bad_settings(cause) from cause

    def _on_commit(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        self._wish.committed(error or next((item.error for item in partitions if item.error is not None), None))

    def fetch(self, rows_max: int, wait_s: float) -> Fetched:
        """See RecordFetcher."""
        # the cycle collector tracks each message object: thousands at once would trigger it again and again
        collecting = gc.isenabled()
        gc.disable()
        try:
            messages = self._consumer.consume(rows_max, wait_s)
            return self._fetched(messages) if messages else NOTHING
        finally:
            if collecting:
                gc.enable()

    def _fetched(self, messages: list[Message]) -> Fetched:
        events: list[FetchEvent] = []
        if any(map(_error_of, messages)):
            events = [_event(error, message) for message in messages if (error := message.error()) is not None]
            messages = [message for message in messages if message.error() is None]
        if not messages:
            return Fetched(events=events)
        # records of an unassigned partition may still arrive
        return Fetched(pieces(messages, tuple(self._assigned)), self._columns(messages), events)

    def _columns(self, messages: list[Message]) -> Columns:
        wish = self._wish
        stamps = [stamp for _, stamp in map(_timestamp_of, messages)] if wish.wants_timestamps else None
        return Columns(
            values=_binary(list(map(_value_of, messages))),
            keys=_binary(list(map(_key_of, messages))) if wish.wants_keys else None,
            timestamps=None if stamps is None else np.array(stamps, dtype=np.int64),
            headers=_headers(list(map(_headers_of, messages))) if wish.wants_headers else None,
        )

    def assign(self, positions: Mapping[SplitId, int]) -> None:
        """See RecordFetcher."""
        self._assigned |= dict.fromkeys(positions)
        self._consumer.incremental_assign([TopicPartition(*split, at) for split, at in positions.items()])

    def unassign(self, split: SplitId) -> None:
        """See RecordFetcher."""
        self._consumer.incremental_unassign([TopicPartition(*split)])

    def pause(self, splits: Sequence[SplitId]) -> None:
        """See RecordFetcher."""
        self._consumer.pause([TopicPartition(*split) for split in splits])

    def resume(self, splits: Sequence[SplitId]) -> None:
        """See RecordFetcher."""
        self._consumer.resume([TopicPartition(*split) for split in splits])

    def commit(self, positions: Mapping[SplitId, int]) -> None:
        """See RecordFetcher."""
        offsets = [TopicPartition(*split, at) for split, at in positions.items()]
        self._consumer.commit(offsets=offsets, asynchronous=True)

    def log_bounds(self, split: SplitId, timeout_s: float) -> tuple[int, int]:
        """See RecordFetcher."""
        bounds = self._consumer.get_watermark_offsets(TopicPartition(*split), timeout=timeout_s)
        if bounds is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return int(bounds[0]), int(bounds[1])

    def known_end(self, split: SplitId) -> int | None:
        """See RecordFetcher."""
        bounds = self._consumer.get_watermark_offsets(TopicPartition(*split), cached=True)
        return None if bounds is None or bounds[1] < 0 else int(bounds[1])

    def topic_error(self, topic: str, timeout_s: float) -> KafkaError | None:
        """See RecordFetcher."""
        found: KafkaError | None = self._consumer.list_topics(topic, timeout=timeout_s).topics[topic].error
        return found

    def close(self) -> None:
        """See RecordFetcher."""
        self._consumer.close()


def _event(error: KafkaError, message: Message) -> FetchEvent:
    topic, partition = message.topic(), message.partition()
    split = SplitId(topic, partition) if topic is not None and partition is not None else None
    return FetchEvent(error, split, message.offset())


def _binary(values: list[bytes | None]) -> pa.Array:
    # polars builds it fastest, and exports the newest form (binary_view) without a copy
    return pl.Series(values, dtype=pl.Binary).to_arrow(compat_level=pl.CompatLevel.newest())


def _headers(rows: list[list[tuple[str, bytes | None]] | None]) -> pl.Series:
    named = [[{"key": key, "value": value} for key, value in row] if row else [] for row in rows]
    return pl.Series("headers", named, dtype=_HEADERS)
