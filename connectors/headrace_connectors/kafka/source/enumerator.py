"""Finds a source's partitions and resolves `start` and `stop` to offsets, once; later it only adds new partitions.
Queries the brokers; `start_stop` interprets the settings. Reads no records."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin._listoffsets import OffsetSpec

from headrace.connect.offsets_by_partition import require_each
from headrace.connect.restored import gone
from headrace.connect.source import SourceContext, Split, SplitId
from headrace.core.errors import UserError
from headrace.formats.archive.coverage import require_covered
from headrace.formats.archive.folder import ArchiveFolder
from headrace.formats.archive.names import ArchiveFile
from headrace.formats.archive.partition import PartitionReader, first_at
from headrace.formats.archive.ranges import covered
from headrace_connectors.kafka.clients.client import (
    CONNECT_TIMEOUT_S,
    ClientWatch,
    base_settings,
    open_admin,
    topic_partitions,
    translated,
)
from headrace_connectors.kafka.clients.committed_offsets import committed_offsets
from headrace_connectors.kafka.clients.log_identity import replaced_topics
from headrace_connectors.kafka.clients.topics import missing_topics
from headrace_connectors.kafka.config import KafkaSourceSettings
from headrace_connectors.kafka.requests.topic_logs import TopicLogs
from headrace_connectors.kafka.source.listed_offsets import EARLIEST, LATEST, ListedOffsets
from headrace_connectors.kafka.source.start_stop import AtOffsets, AtTime, AtWord, Place, parse_place


class ArchivedStarts:
    """Extends the possible starts of a source by its archive: older offsets, times in them, and a check for holes.
    Without an archive it adds nothing. It owns the archive's side of resolving splits; `KafkaEnumerator` owns Kafka's
    side, and the choice between the two.

    An archive is compared with Kafka at an offset that both have: another log of the same name has another record
    there. Offsets alone do not distinguish a topic that was created again once it has as many records as the archive.
    Archives name no topic id, so that they stay valid for a topic that was mirrored to another cluster, offset by
    offset.
    """

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


# ---- the enumerator --------------------------------------------------------------------------------------------------


DISCOVERY_INTERVAL_MS = 30_000
"""Interval of discovery in an unbounded source, unless `topic.metadata.refresh.interval.ms` is set."""

LATER_TIMEOUT_S = 1.0
"""Time limit of a later discovery: it is repeated anyway, and its caller supervises a running job."""

Found = Mapping[SplitId, int]


class KafkaEnumerator:
    """Resolves splits with the broker; a split keeps its first result."""

    def __init__(self, config: KafkaSourceSettings, context: SourceContext) -> None:
        self._config = config
        self._context = context
        self._watch = ClientWatch(config.brokers)
        self._admin = open_admin(config.brokers, config.properties, self._watch)
        self._offsets = ListedOffsets(self._admin, self._watch, config.brokers)
        self._archive = ArchivedStarts(config.archive)
        self._known: dict[SplitId, Split] = {}
        self._foreign = False
        self._resolved = False

    @property
    def discovery_interval_ms(self) -> int | None:
        """None for a bounded source: its partitions are fixed when it starts."""
        if self._config.bounded:
            return None
        return int(self._config.properties.get("topic.metadata.refresh.interval.ms", DISCOVERY_INTERVAL_MS))

    def replaced(self, known: Sequence[Split]) -> Mapping[str, str]:
        """Topics of `known` that are other ones now, by topic id and cluster id."""
        topics = {split.id.topic for split in known if split.identity}
        return replaced_topics(known, self._identities(topics), self._config.brokers)

    def restore(self, splits: Sequence[Split], *, foreign: bool) -> None:
        """Continues from these splits: their offsets stay; other partitions are new and read from the earliest
        offset."""
        self._known = {split.id: split for split in splits}
        self._foreign = foreign

    def discover(self) -> Sequence[Split]:
        """All splits, by topic and partition. Later calls add new ones, or raise ExternalError after at most
        `LATER_TIMEOUT_S`."""
        if not self._resolved:
            self._begin()
            self._resolved = True
        elif not self._config.bounded:
            self._add_new(LATER_TIMEOUT_S)
        return [self._known[split] for split in sorted(self._known)]

    def _begin(self) -> None:
        if self._known and not self._foreign:
            # a bounded source has been resolved already
            if not self._config.bounded:
                self._add_new(CONNECT_TIMEOUT_S)
            self._known = self._identified(self._known.values())
            return
        ids = self._partitions(topic_partitions(self._admin, self._watch))
        splits = self._take_on(ids) if self._known else self._resolve(ids)
        self._known = self._identified(splits)

    def _identified(self, splits: Iterable[Split]) -> dict[SplitId, Split]:
        """The splits by name. Those without an identity get that of their topic: state of an earlier version has
        none."""
        found = {split.id: split for split in splits}
        lacking = {split.topic for split, each in found.items() if not each.identity}
        now = self._identities(lacking)
        return {
            name: split if split.identity else replace(split, identity=now.get(name.topic, ""))
            for name, split in found.items()
        }

    def _identities(self, topics: Collection[str]) -> Mapping[str, str]:
        """Not often enough for a connection that stays."""
        logs = TopicLogs(self._config.brokers, self._config.properties)
        try:
            return logs.of(topics)
        finally:
            logs.close()

    def _take_on(self, ids: Sequence[SplitId]) -> list[Split]:
        """Another job's splits: their starts stay, and their stops are resolved by this job's settings."""
        there = set(ids)
        if missing := [split for name, split in self._known.items() if name not in there]:
            raise gone(self._context.node, missing)
        low, begin = self._bounds(ids)
        starts = {name: self._known[name].start if name in self._known else begin[name] for name in ids}
        splits = [
            replace(split, identity=self._known[split.id].identity) if split.id in self._known else split
            for split in _splits(starts, self._stops(ids, low, self._offsets.of(ids, LATEST)))
        ]
        # the other job's positions are in its state, so the reader checks whether the rest is available
        self._archive.require_covered([split for split in splits if split.id not in self._known], low)
        return splits

    def _bounds(self, ids: Sequence[SplitId]) -> tuple[Found, Found]:
        """Kafka's earliest offsets, and the earliest readable ones, including the archive."""
        self._archive.refresh(ids)
        low = self._offsets.of(ids, EARLIEST)
        if self._archive.is_used:
            self._archive.require_same_log(self._config, low, self._offsets.of(ids, LATEST, committed_only=False))
        return low, self._archive.beginnings(low)

    def close(self) -> None:
        """Does nothing: the client is released with this object."""

    def _partitions(self, existing: Mapping[str, Sequence[int]]) -> list[SplitId]:
        """The partitions of the configured topics. Raises UserError, which names every missing topic."""
        config = self._config
        if config.fixed_topics is not None:
            if missing := [topic for topic in config.fixed_topics if topic not in existing]:
                raise missing_topics(missing, config.brokers, existing)
            topics: Sequence[str] = config.fixed_topics
        else:
            assert config.pattern is not None
            topics = [name for name in existing if not name.startswith("__") and re.fullmatch(config.pattern, name)]
            if not topics and not self._resolved:
                names = sorted(name for name in existing if not name.startswith("__"))
                raise UserError(
                    f"no topic at {config.brokers} matches pattern {config.pattern!r}",
                    remedy=f"topics there: {', '.join(names[:10]) or 'none'}",
                )
        return sorted(SplitId(topic, partition) for topic in set(topics) for partition in existing[topic])

    def _add_new(self, timeout_s: float) -> None:
        existing = topic_partitions(self._admin, self._watch, timeout_s=timeout_s)
        found = [split for split in self._still_there(existing) if split not in self._known]
        if found:
            low, begin = self._bounds(found)
            added = [Split(split, begin[split]) for split in found]
            self._archive.require_covered(added, low)
            self._known |= self._identified(added)

    def _still_there(self, existing: Mapping[str, Sequence[int]]) -> list[SplitId]:
        # the reader reports a vanished topic: it knows how long the topic has been gone
        fixed = self._config.fixed_topics
        if fixed is None:
            return self._partitions(existing)
        return [SplitId(topic, partition) for topic in fixed for partition in existing.get(topic, ())]

    def _resolve(self, ids: Sequence[SplitId]) -> list[Split]:
        low, begin = self._bounds(ids)
        high = self._offsets.of(ids, LATEST)
        start = parse_place(self._config.start)
        stops = self._stops(ids, low, high)
        if start == AtWord("archived"):
            starts: Found = self._archive.ends(low, stops)
        else:
            starts = self._places(start, ids, (low, begin, high), what="start")
        if isinstance(start, AtOffsets):
            self._check_range(starts, low, begin)
        splits = _splits(starts, stops)
        self._archive.require_covered(splits, low)
        return splits

    def _stops(self, ids: Sequence[SplitId], low: Found, high: Found) -> Found | None:
        """The stop of each partition; None for an unbounded source."""
        if self._config.stop is None:
            return None
        bounds = (low, self._archive.beginnings(low), high)
        return self._places(parse_place(self._config.stop), ids, bounds, what="stop")

    def _places(self, place: Place, ids: Sequence[SplitId], bounds: tuple[Found, Found, Found], *, what: str) -> Found:
        """`bounds`: Kafka's earliest offset, the earliest readable one, and the log end."""
        low, begin, high = bounds
        match place:
            case AtWord("earliest"):
                return begin
            case AtWord("latest"):
                return high
            case AtWord():
                return self._committed(ids, begin)
            case AtTime(time_ms):
                at = self._offsets.of(ids, OffsetSpec.for_timestamp(time_ms))
                found = {split: high[split] if at[split] < 0 else min(at[split], high[split]) for split in ids}
                return self._archive.at_time(time_ms, found, low)
            case AtOffsets():
                return self._named(place, ids, what=what)

    def _named(self, place: AtOffsets, ids: Sequence[SplitId], *, what: str) -> Found:
        for topic in dict.fromkeys(split.topic for split in ids):
            existing = {split.partition for split in ids if split.topic == topic}
            require_each(what, topic, place.partitions_of(topic), existing)
        return {split: place.partitions_of(split.topic)[split.partition] for split in ids}

    def _check_range(self, starts: Found, low: Found, begin: Found) -> None:
        # the log end, not the last stable offset: a position may lie behind an open transaction
        end = self._offsets.of(list(starts), LATEST, committed_only=False)
        for split, asked in starts.items():
            if not begin[split] <= asked <= end[split]:
                raise out_of_range(split, asked, low[split], end[split])

    def _committed(self, ids: Sequence[SplitId], low: Found) -> Found:
        settings = base_settings(self._config.brokers, self._config.properties, self._watch)
        consumer = Consumer(settings | {"group.id": self._config.group_id(self._context), "enable.auto.commit": False})
        try:
            asked = [TopicPartition(split.topic, split.partition) for split in ids]
            answered = committed_offsets(consumer, asked, self._watch)
        except KafkaException as cause:
            raise translated(cause.args[0], self._config.brokers) from cause
        finally:
            consumer.close()
        committed = {SplitId(item.topic, item.partition): item.offset for item in answered}
        # a committed offset that has expired starts at the earliest too: `committed` is not an exact position
        return {split: max(committed.get(split, -1), low[split]) for split in ids}


def _splits(starts: Found, stops: Found | None) -> list[Split]:
    return [Split(split, start, None if stops is None else stops[split]) for split, start in starts.items()]


def out_of_range(split: SplitId, asked: int, low: int, high: int) -> UserError:
    """The error for a position that the partition does not have (any more)."""
    gone = "has expired" if asked < low else "is past the end"
    return UserError(
        f"{split.topic} partition {split.partition}: offset {asked} {gone}: the partition holds {low} to {high}",
        remedy=f"start at {low} or later (`start: earliest`), knowing that what lies before is lost to this job"
        if asked < low
        else f"start at {high} or before",
    )
