"""The record queue on confluent-kafka's own producer: one call a record; takes timestamps and headers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import repeat

import polars as pl
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from headrace_connectors.kafka.client import CONNECT_TIMEOUT_S, ClientWatch, bad_settings, base_settings
from headrace_connectors.kafka.records import HELD_SETTINGS, HURRY_MS, SETTINGS, Records, delivery_failed, rows_allowed


class ClientProducer:
    """A producer to one topic."""

    def __init__(self, brokers: str, topic: str, properties: Mapping[str, str]) -> None:
        self._brokers, self._topic = brokers, topic
        self._watch = ClientWatch(brokers)
        self._failed: KafkaError | None = None
        settings = SETTINGS | base_settings(brokers, properties, self._watch) | HELD_SETTINGS
        try:
            self._producer = Producer(settings | {"on_delivery": self._on_delivery})
        except KafkaException as cause:
            raise bad_settings(cause) from cause
        self._closed = False

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        # only failures are reported; the first one tells why
        if error is not None and self._failed is None:
            self._failed = error

    def _raise_if_failed(self) -> None:
        if self._failed is not None:
            raise delivery_failed(self._failed, self._topic, self._brokers)
        self._watch.raise_if_hopeless()

    def send(self, records: Records, partition: int) -> None:
        """Queues records; see RecordQueue."""
        count = len(records)
        allowed = rows_allowed(count, records.values.nbytes)
        self._producer.poll(0)
        self._raise_if_failed()
        while (queued := len(self._producer)) and queued + count > allowed:
            self._producer.poll(0.01)
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
            raise delivery_failed(cause.args[0], self._topic, self._brokers) from cause

    def hurry(self) -> None:
        """Sends what is queued: while a flush is under way, the client does not linger."""
        self._producer.flush(HURRY_MS / 1000)

    def flush(self) -> None:
        """Waits for every record; each one is either acknowledged or failed after message.timeout.ms."""
        while self._producer.flush(0.5):
            self._raise_if_failed()
        self._raise_if_failed()

    def partitions(self) -> int:
        """How many partitions the topic has now."""
        try:
            listing = self._producer.list_topics(self._topic, timeout=CONNECT_TIMEOUT_S)
        except KafkaException as cause:
            self._watch.raise_if_hopeless()
            raise self._watch.unreachable() from cause
        topic = listing.topics[self._topic]
        if topic.error is not None:
            raise delivery_failed(topic.error, self._topic, self._brokers)
        return len(topic.partitions)

    def close(self) -> None:
        """Drops what is queued."""
        if not self._closed:
            self._closed = True
            self._producer.purge(in_queue=True, in_flight=True, blocking=False)
            self._producer.flush(0.2)


def _as_list(column: object) -> list[bytes | None]:
    series = pl.from_arrow(column)
    assert isinstance(series, pl.Series)
    return series.to_list()
