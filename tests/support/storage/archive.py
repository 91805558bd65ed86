"""Fills an archive the way a job does: a raw Kafka source's batches through the archive sink's writer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.connect.metadata import METADATA
from headrace.connect.sink import SinkBatch, SinkContext
from headrace.connect.source import MessageBatch, SourceContext, Split
from headrace.core.types import Field, Primitive, Schema, schema_of
from headrace.testing.source_conformance import TIMEOUT_S
from headrace_connectors.archive import ArchiveSinkConfig
from headrace_connectors.kafka import KafkaSourceConfig
from support.kafka.broker import Broker
from support.kafka.log_ends import PATIENCE_SECONDS, wait_settled

SINK_SCHEMA = Schema((Field("value", Primitive.BINARY), *METADATA.values()))

EVERYTHING = SourceContext(
    "p", "n", schema_of({"v": "binary"}), "raw", wants_keys=True, wants_headers=True, wants_timestamps=True
)
"""Asks a source for all that a record carries."""


def rows_of(batch: MessageBatch) -> pl.DataFrame:
    """A batch as the sink gets it."""
    assert batch.timestamps is not None
    places = [run.split for run in batch.runs for _ in range(run.end - run.begin)]
    columns = {
        "value": pl.Series(pl.from_arrow(batch.values)),
        "topic": [split.topic for split in places],
        "partition": pl.Series([split.partition for split in places], dtype=pl.Int32),
        "offset": batch.positions,
        "timestamp": pl.Series(batch.timestamps * 1000).cast(pl.Datetime("us", "UTC")),
        "key": pl.Series(pl.from_arrow(batch.keys)),
        "headers": batch.headers,
    }
    return pl.DataFrame(columns)


def archive_topics(
    source: KafkaSourceConfig,
    path: str,
    *,
    job: str = "job",
    splits: list[Split] | None = None,
    flush_rows: int = 7,
    **limits: int,
) -> None:
    """Archives what a bounded source (or these splits of it) has, with a barrier about every `flush_rows` rows."""
    config = ArchiveSinkConfig(path=path, **limits)
    context = SinkContext(job, "kept", 0, 1, SINK_SCHEMA)
    assert not config.check(context)
    config.prepare(context)
    writer = config.open_writer(context)
    splits = list(source.open_enumerator(EVERYTHING).discover()) if splits is None else splits
    reader = source.open_reader(replace(EVERYTHING, poll_rows_max=flush_rows))
    reader.assign(splits)
    left, epoch = {split.id for split in splits}, 0
    while left:
        polled = reader.poll(20)
        left -= polled.finished
        if isinstance(polled.batch, MessageBatch):
            writer.write(SinkBatch(rows_of(polled.batch)))
            epoch += 1
            writer.flush(epoch)
    writer.close()
    reader.close()


def read_records(source: KafkaSourceConfig, splits: Sequence[Split] | None = None) -> list[tuple[Any, ...]]:
    """All that a bounded source (or these splits of it) gives of its records, by partition and offset."""
    splits = list(source.open_enumerator(EVERYTHING).discover()) if splits is None else splits
    reader = source.open_reader(EVERYTHING)
    reader.assign(splits)
    left, records = {split.id for split in splits}, list[tuple[Any, ...]]()
    deadline = time.monotonic() + TIMEOUT_S
    while left:
        assert time.monotonic() < deadline, f"{left} did not finish within {TIMEOUT_S:.0f} s"
        polled = reader.poll(20)
        left -= polled.finished
        if isinstance(polled.batch, MessageBatch):
            rows = rows_of(polled.batch)
            records += rows.select("topic", "partition", "offset", "timestamp", "key", "value", "headers").rows()
    reader.close()
    return sorted(records, key=lambda record: record[:3])


def delete_records(broker: Broker, topic: str, before: Mapping[int, int]) -> None:
    """Has the broker delete a topic's records before these offsets, as retention does."""
    if not before:
        return
    wait_settled(broker.bootstrap, topic)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    places = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    for future in admin.delete_records(places, request_timeout=PATIENCE_SECONDS).values():
        future.result()
