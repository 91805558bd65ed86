"""Dead letters in a topic: read back with their headers, and sent again in transactions.

A letter is sent again as the record that it was: value, key, headers and timestamp, into its partition if its topic
still has that. Letters of versions that did not record the timestamp get the time of sending.

The position up to which letters have been sent is stored as offsets of a consumer group, which move in the same
transaction as the letters. So nothing is sent twice, however a call ends. Two concurrent calls cannot both succeed,
because they share a transactional id.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from headrace.connect.dead_letters import DeadLetter, Resent
from headrace.connect.sink import SinkContext
from headrace.connect.source import SplitId
from headrace.core.errors import ExternalError, UserError
from headrace_connectors.kafka.clients.client import (
    CONNECT_TIMEOUT_S,
    ClientWatch,
    base_settings,
    open_admin,
    topic_partitions,
    translated,
)
from headrace_connectors.kafka.clients.committed_offsets import committed_offsets
from headrace_connectors.kafka.clients.properties import connection_settings
from headrace_connectors.kafka.clients.topics import missing_topic
from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.source.listed_offsets import EARLIEST, LATEST, ListedOffsets

READ_TIMEOUT_S = 30.0
"""Time without a record after which reading fails."""
TRANSACTION_TIMEOUT_MS = 60_000
OUR_HEADERS = frozenset({"topic", "partition", "offset", "timestamp", "reason"})
"""Headers that a letter has beside those of the record."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class KafkaDeadLetters:
    """`connect.dead_letters.DeadLetters` of a topic."""

    def __init__(self, config: KafkaSinkSettings, context: SinkContext) -> None:
        self._config = config
        self._name = f"headrace-redrive-{context.job}-{context.node}"
        self._watch = ClientWatch(config.brokers)
        self._admin = open_admin(config.brokers, config.properties, self._watch)
        self._offsets = ListedOffsets(self._admin, self._watch, config.brokers)
        self._consumer = self._open_consumer()

    def newest(self, limit: int) -> Sequence[DeadLetter]:
        """The newest letters of all partitions, by their time of writing."""
        first, ends = self._range()
        # transaction markers occupy offsets too, at worst one or two per letter: start further back
        starts = {split: max(first[split], end - 3 * limit) for split, end in ends.items()}
        letters = [_letter(message) for message in self._records(starts, ends)]
        return sorted(letters, key=lambda each: (each.at_ms, each.place, each.position))[-limit:]

    def resend(self, to: str | None, limit: int, *, do: bool) -> Resent:
        """See DeadLetters. Sends all letters of a call in one transaction."""
        existing = topic_partitions(self._admin, self._watch)
        if to is not None and to not in existing:
            raise missing_topic(to, self._config.brokers, existing)
        first, ends = self._range()
        starts = self._sent(first)
        batch: list[tuple[DeadLetter, str]] = []
        positions: dict[SplitId, int] = {}
        empty = 0
        more = False
        for message in self._records(starts, ends):
            if len(batch) + empty == limit:
                more = True
                break
            letter = _letter(message)
            if letter.value is None:
                empty += 1
            else:
                batch.append((letter, to or _origin(letter)))
            positions[letter.place] = letter.position + 1
        for topic in {topic for _, topic in batch} - existing.keys():
            raise missing_topic(topic, self._config.brokers, existing)
        if do and positions:
            self._send([(letter, topic, _place(letter, to, existing)) for letter, topic in batch], positions)
        return Resent(dict(Counter(topic for _, topic in batch)), more, empty)

    def close(self) -> None:
        """Closes the consumer."""
        self._consumer.close()

    def _range(self) -> tuple[dict[SplitId, int], dict[SplitId, int]]:
        """First and last stable offset of each partition; empty if the topic does not exist."""
        topic = self._config.topic
        ids = [SplitId(topic, number) for number in topic_partitions(self._admin, self._watch).get(topic, ())]
        return self._offsets.of(ids, EARLIEST), self._offsets.of(ids, LATEST)

    def _sent(self, first: Mapping[SplitId, int]) -> dict[SplitId, int]:
        """The position up to which letters have been sent, by partition."""
        places = [TopicPartition(split.topic, split.partition) for split in first]
        try:
            committed = committed_offsets(self._consumer, places, self._watch)
        except KafkaException as cause:
            raise translated(cause.args[0], self._config.brokers) from cause
        known = {SplitId(each.topic, each.partition): each.offset for each in committed}
        return {split: max(at, known.get(split, -1)) for split, at in first.items()}

    def _records(self, starts: Mapping[SplitId, int], ends: Mapping[SplitId, int]) -> Iterator[Message]:
        """Records from `starts` to `ends`, interleaved by partition as they arrive."""
        left = {split: end for split, end in ends.items() if starts[split] < end}
        self._consumer.assign([TopicPartition(each.topic, each.partition, starts[each]) for each in left])
        deadline = time.monotonic() + READ_TIMEOUT_S
        try:
            while left:
                for message in self._consumer.consume(500, 0.2):
                    deadline = time.monotonic() + READ_TIMEOUT_S
                    split = SplitId(str(message.topic()), message.partition() or 0)
                    if split not in left:
                        continue
                    at = message.offset() or 0
                    if self._is_end(message) or at >= left[split]:
                        if at >= left[split]:
                            del left[split]
                        continue
                    yield message
                    if at + 1 >= left[split]:
                        del left[split]
                self._watch.raise_if_hopeless()
                if time.monotonic() > deadline:
                    raise ExternalError(
                        f"Kafka at {self._config.brokers} returns no records of {', '.join(map(str, left))}", retry=True
                    )
        finally:
            self._consumer.unassign()

    def _is_end(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            return False
        if error.code() == KafkaError._PARTITION_EOF or error.retriable():
            return True
        raise translated(error, self._config.brokers)

    def _send(self, batch: Sequence[tuple[DeadLetter, str, int]], positions: Mapping[SplitId, int]) -> None:
        producer = self._open_producer()
        offsets = [TopicPartition(split.topic, split.partition, at) for split, at in positions.items()]
        try:
            producer.init_transactions(CONNECT_TIMEOUT_S)
            producer.begin_transaction()
            for letter, topic, partition in batch:
                _produce(producer, letter, topic, partition)
            producer.send_offsets_to_transaction(
                offsets, self._consumer.consumer_group_metadata(), TRANSACTION_TIMEOUT_MS / 1000
            )
            producer.commit_transaction(TRANSACTION_TIMEOUT_MS / 1000)
        except KafkaException as cause:
            # an open transaction would block the topic's read_committed readers until it expires
            with contextlib.suppress(KafkaException):
                producer.abort_transaction(CONNECT_TIMEOUT_S)
            raise translated(cause.args[0], self._config.brokers) from cause

    def _open_consumer(self) -> Consumer:
        return Consumer(
            {
                **base_settings(self._config.brokers, connection_settings(self._config.properties), self._watch),
                "group.id": self._name,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )

    def _open_producer(self) -> Producer:
        return Producer(
            {
                **base_settings(self._config.brokers, connection_settings(self._config.properties), self._watch),
                "transactional.id": self._name,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "message.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "socket.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "partitioner": "murmur2_random",
            }
        )


def _produce(producer: Producer, letter: DeadLetter, topic: str, partition: int) -> None:
    # a timestamp of 0 is the time of sending to the client
    stamp = letter.timestamp_ms or 0
    producer.produce(
        topic, letter.value, letter.key, partition=partition, timestamp=stamp, headers=list(letter.headers)
    )
    producer.poll(0)


def _place(letter: DeadLetter, to: str | None, existing: Mapping[str, Sequence[int]]) -> int:
    """The partition that a letter came from; -1, by its key, for another topic, or a topic that has it no more."""
    origin = letter.origin
    if to is not None or origin is None or origin.partition not in existing[origin.topic]:
        return -1
    return origin.partition


def _letter(message: Message) -> DeadLetter:
    all_headers = _headers(message)
    headers = dict(all_headers)
    topic, partition, offset = (_text(headers.get(name)) for name in ("topic", "partition", "offset"))
    known = topic and partition.isdecimal() and offset.isdecimal()
    return DeadLetter(
        place=SplitId(str(message.topic()), message.partition() or 0),
        position=message.offset() or 0,
        origin=SplitId(topic, int(partition)) if known else None,
        origin_position=int(offset) if known else None,
        reason=_text(headers.get("reason")),
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        at_ms=message.timestamp()[1],
        timestamp_ms=_milliseconds(_text(headers.get("timestamp"))) if known else None,
        headers=all_headers[: len(all_headers) - _ours(all_headers)],
    )


def _headers(message: Message) -> tuple[tuple[str, bytes | None], ...]:
    given = message.headers() or []
    listed = given.items() if isinstance(given, dict) else given
    return tuple((name, _bytes(value)) for name, value in listed)


def _ours(headers: Sequence[tuple[str, bytes | None]]) -> int:
    """How many headers at the end are those of the letter: its sink writes each of them once, after the record's."""
    names: set[str] = set()
    for name, _ in reversed(headers):
        if name not in OUR_HEADERS or name in names:
            break
        names.add(name)
    return len(names)


def _milliseconds(text: str) -> int | None:
    """Epoch ms of a time as sinks write it; None for no time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment - _EPOCH) // timedelta(milliseconds=1) if moment.tzinfo is not None else None


def _origin(letter: DeadLetter) -> str:
    if letter.origin is None:
        raise UserError(
            f"the letter at {letter.place} offset {letter.position} has no header with its source topic",
            remedy="name the topic with --to",
        )
    return letter.origin.topic


def _text(value: str | bytes | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
