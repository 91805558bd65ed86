"""Extends the possible starts of a source by its archive: older offsets, times in them, and a check for holes.

Owns the archive's side of resolving splits; `enumerator` owns Kafka's side, and the choice between the two.

An archive is compared with Kafka at an offset that both have: another log of the same name has another record there.
Offsets alone do not distinguish a topic that was created again once it has as many records as the archive. Archives
name no topic id, so that they stay valid for a topic that was mirrored to another cluster, offset by offset.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.connect.source import Split, SplitId
from headrace.core.errors import UserError
from headrace.formats.archive.coverage import require_covered
from headrace.formats.archive.folder import ArchiveFolder
from headrace.formats.archive.names import ArchiveFile
from headrace.formats.archive.partition import PartitionReader, first_at
from headrace.formats.archive.ranges import covered
from headrace_connectors.kafka.clients.client import CONNECT_TIMEOUT_S, ClientWatch, base_settings, translated
from headrace_connectors.kafka.config import KafkaSourceSettings

Found = Mapping[SplitId, int]


class ArchivedStarts:
    """The archive of one source; without an archive it adds nothing."""

    def __init__(self, url: str | None) -> None:
        self._folder = None if url is None else ArchiveFolder(url)
        self._files: dict[SplitId, list[ArchiveFile]] = {}

    def refresh(self, ids: Iterable[SplitId]) -> None:
        """Lists the archived files of these partitions. Called before Kafka is queried: archived offsets were in Kafka
        first."""
        if self._folder is not None:
            self._files |= {split: self._folder.files(*split) for split in ids}

    def beginnings(self, low: Found) -> dict[SplitId, int]:
        """The earliest offset of each partition; `low`: Kafka's earliest."""
        return {
            split: min([offset, *(file.first for file in self._files.get(split, ()))]) for split, offset in low.items()
        }

    def ends(self, low: Found, stops: Found | None) -> dict[SplitId, int]:
        """The last archived offset of each partition; `low` without an archive.

        The last one, not the one after it: an archiving job must read it again, because only then does it know that
        there is no offset between the archive and the next record. That is not needed if `stops` leaves no next record.
        """
        places = dict(low)
        for split in low:
            if files := self._files.get(split):
                end = max(file.next for file in files)
                places[split] = end if stops is not None and end >= stops[split] else end - 1
        return places

    def at_time(self, time_ms: int, found: Found, low: Found) -> dict[SplitId, int]:
        """`found`, Kafka's answer for a time, or an earlier archived offset of that time or later."""
        assert self._folder is not None or not self._files, "without an archive nothing is archived"
        places = dict(found)
        for split, files in self._files.items():
            if split in low and files and files[0].first < low[split] and self._folder is not None:
                bounds = (files[0].first, low[split])
                earlier = first_at(self._folder, split, files, bounds, time_ms)
                places[split] = found[split] if earlier is None else earlier
        return places

    def require_same_log(self, config: KafkaSourceSettings, low: Found, end: Found) -> None:
        """Raises UserError if the archive holds offsets beyond a partition's `end`, or another record at an offset that
        Kafka still has; `low`: Kafka's earliest. One partition of each topic is compared: topics are replaced whole."""
        if self._folder is None:
            return
        common: dict[str, tuple[SplitId, int]] = {}
        for split, offset in end.items():
            archived = max((file.next for file in self._files.get(split, ())), default=0)
            if archived > offset:
                raise another_log(
                    split, self._url, f"the archive ends at offset {archived - 1}, but the partition ends at {offset}"
                )
            if low[split] < archived:
                common[split.topic] = (split, archived - 1)
        require_same_records(config, self._folder, dict(common.values()))

    def require_covered(self, splits: Iterable[Split], low: Found) -> None:
        """Raises UserError if a split has a part that neither the archive nor Kafka has."""
        if self._folder is None:
            return
        for split in splits:
            require_covered(
                f"{split.id.topic} partition {split.id.partition}",
                covered(self._files.get(split.id, ())),
                split.start,
                split.stop,
                log_start=low[split.id],
                archive=self._url,
            )

    @property
    def is_used(self) -> bool:
        """Whether the source has an archive."""
        return self._folder is not None

    @property
    def _url(self) -> str:
        return "" if self._folder is None else self._folder.url


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
