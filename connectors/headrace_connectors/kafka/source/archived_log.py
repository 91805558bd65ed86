"""Compares an archive with Kafka at an offset that both have: another log of the same name has another record there.

Offsets alone cannot tell a topic that was made anew once it has as many records as the archive. Archives name no topic
id, so that they stay valid for a topic that was mirrored to another cluster, offset by offset.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.connect.source import SplitId
from headrace.core.errors import UserError
from headrace.formats.archive.folder import ArchiveFolder
from headrace.formats.archive.partition import PartitionReader
from headrace_connectors.kafka.clients.client import CONNECT_TIMEOUT_S, ClientWatch, base_settings, translated
from headrace_connectors.kafka.config import KafkaSourceSettings


def require_same_records(config: KafkaSourceSettings, folder: ArchiveFolder, places: Mapping[SplitId, int]) -> None:
    """Compares the records at `places`, which both have unless compaction has removed them from Kafka. Raises UserError
    for another one, ExternalError if Kafka does not return them."""
    if not places:
        return
    try:
        for split, message in _records(config, places):
            if not _is_archived(folder, split, message):
                raise another_log(
                    split, folder.url, f"the record at offset {message.offset()} is another one in the archive"
                )
    except KafkaException as cause:
        raise translated(cause.args[0], config.brokers) from cause


def another_log(split: SplitId, url: str, difference: str) -> UserError:
    """The error for an archive of another log than the partition is now."""
    return UserError(
        f"{split.topic} partition {split.partition}: {difference}: it is not the log that was archived in {url}",
        remedy="the topic was created again, or another topic has its name: use another archive",
    )


def _records(config: KafkaSourceSettings, places: Mapping[SplitId, int]) -> Iterator[tuple[SplitId, Message]]:
    """The records at these places that Kafka has."""
    watch = ClientWatch(config.brokers)
    settings = base_settings(config.brokers, config.properties, watch) | {
        "group.id": "headrace-archive",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        # aborted records are not archived, but a record that is archived may lie behind an open transaction
        "isolation.level": "read_uncommitted",
        "queued.max.messages.kbytes": 1024,
    }
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(*split, offset) for split, offset in places.items()])
        left = set(places)
        deadline = time.monotonic() + CONNECT_TIMEOUT_S
        while left:
            message = consumer.poll(0.1)
            watch.raise_if_hopeless()
            if message is None:
                if time.monotonic() >= deadline:
                    raise watch.unreachable()
                continue
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                if error.retriable() and time.monotonic() < deadline:
                    continue
                raise KafkaException(error)
            split = SplitId(str(message.topic()), message.partition() or 0)
            if split in left:
                left.discard(split)
                consumer.incremental_unassign([TopicPartition(*split)])
                if error is None and message.offset() == places[split]:
                    yield split, message
    finally:
        consumer.close()


def _is_archived(folder: ArchiveFolder, split: SplitId, message: Message) -> bool:
    offset = message.offset() or 0
    reader = PartitionReader(folder, split, offset, offset + 1, ["timestamp", "key", "value"])
    try:
        rows = reader.read(1)
    finally:
        reader.close()
    # no file has the offset: it was removed meanwhile
    if rows is None:
        return True
    row = rows.to_pylist()[0]
    kind, stamp = message.timestamp()
    same_time = kind == TIMESTAMP_NOT_AVAILABLE or row["timestamp"] in (-1, stamp)
    return same_time and (row["key"], row["value"]) == (message.key(), message.value())
