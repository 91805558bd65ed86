"""A publisher that was given another number of rows than its share has. Needs no broker."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest

from headrace.connect.publisher import Share
from headrace.connect.share_marker import ShareMarker
from headrace.connect.sink import SinkBatch, SinkContext
from headrace.core.errors import DataError, InternalError
from headrace.core.types import schema_of
from headrace_connectors.kafka import KafkaSinkConfig
from headrace_connectors.kafka.publishing import publisher as publishing
from headrace_connectors.kafka.publishing.publisher import KafkaPublisher
from headrace_connectors.kafka.sink.record_sender import RecordSender
from headrace_connectors.kafka.sink.records import RecordQueue, Records

CONTEXT = SinkContext("j", "out", 0, 1, schema_of({"n": "int64"}), format="json")


class RecordingProducer:
    """Delivers everything, and keeps what was committed: the rows with each marker."""

    timeout_ms = 60_000

    def __init__(self, _config: object, _name: str) -> None:
        self.open_rows = 0
        self.committed: list[int] = []

    def register(self) -> None:
        """The name is free."""

    def begin_transaction(self) -> None:
        self.open_rows = 0

    def commit(self, _marker: object, _group: object) -> None:
        self.committed.append(self.open_rows)

    def close(self) -> None:
        """Nothing is held."""


class NoMarker:
    """The group of a share that nobody has published."""

    metadata = None

    def __init__(self, _config: object, _context: object) -> None: ...

    def read(self, _patience_s: float) -> ShareMarker | None:
        return None

    def close(self) -> None:
        """Nothing is held."""


class Counter(RecordSender):
    """A sender that counts rows."""

    def send(self, queue: RecordQueue, records: Records) -> None:
        assert isinstance(queue, RecordingProducer)
        queue.open_rows += len(records)


def opened(monkeypatch: pytest.MonkeyPatch, rows: int) -> tuple[KafkaPublisher, RecordingProducer]:
    monkeypatch.setattr(publishing, "PublishingProducer", RecordingProducer)
    monkeypatch.setattr(publishing, "MarkerGroup", NoMarker)
    monkeypatch.setattr(publishing, "RecordSender", Counter)
    config = KafkaSinkConfig.model_validate({"brokers": "127.0.0.1:1", "topic": "t"})
    publisher = KafkaPublisher(config, CONTEXT, Share(1, rows), transaction_rows_max=2)
    producer = publisher._producer
    assert isinstance(producer, RecordingProducer)
    return publisher, producer


def batch(rows: int) -> SinkBatch:
    return SinkBatch(pl.DataFrame({"n": range(rows)}), pa.array([b"v"] * rows, pa.large_binary()))


def test_a_whole_share_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    publisher, producer = opened(monkeypatch, 3)
    publisher.write(batch(3))
    publisher.finish()
    assert producer.committed == [2, 1]


def test_a_short_share_does_not_count_as_published(monkeypatch: pytest.MonkeyPatch) -> None:
    publisher, producer = opened(monkeypatch, 4)
    publisher.write(batch(3))
    with pytest.raises(InternalError, match="has 4 rows, and its publisher was given 3"):
        publisher.finish()
    assert producer.committed == [2, 1]


def test_rows_beyond_the_share_are_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    publisher, producer = opened(monkeypatch, 3)
    with pytest.raises(InternalError, match="has 3 rows, and its publisher was given 4"):
        publisher.write(batch(4))
    assert producer.committed == [2]


def test_a_record_that_the_topic_refuses_is_decided_already(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter comes too late: the same rows are published by the next command."""

    def refused(self: RecordingProducer, _marker: object, _group: object) -> None:
        raise DataError("a record was not delivered: too large", remedy="raise the topic's max.message.bytes")

    publisher, _ = opened(monkeypatch, 1)
    monkeypatch.setattr(RecordingProducer, "commit", refused)
    publisher.write(batch(1))
    with pytest.raises(DataError, match="a record was not delivered: too large") as raised:
        publisher.finish()
    assert raised.value.remedy is not None
    assert "run the same command again; raise the topic's max.message.bytes" in raised.value.remedy
